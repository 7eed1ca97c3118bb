! Half the time of a round trip between two ranks, as benches/osu/latency.c, through mpi_f08.
program latency
  use bench_common
  implicit none
  character, allocatable :: out(:), in(:)
  integer :: bytes
  call bench_begin('latency')
  allocate (out(largest), in(largest))
  if (rank == 0) print '(A,/,A)', '# latency, Fortran', '# Size     Avg Latency(us)'
  bytes = smallest
  do while (bytes <= largest)
    call measure()
    bytes = max(2 * bytes, 1)
  end do
  call MPI_Finalize()
contains
  subroutine measure()
    double precision :: start
    integer :: round, rounds, warmup
    rounds = bench_iterations(bytes)
    warmup = rounds / 10 + 1
    call MPI_Barrier(MPI_COMM_WORLD)
    start = 0
    do round = -warmup, rounds - 1
      if (round == 0) start = bench_now()
      if (is_checked) out(:bytes) = achar(modulo(round, 100))
      if (rank == 0) call MPI_Send(out, bytes, MPI_CHARACTER, peer, 1, MPI_COMM_WORLD)
      call MPI_Recv(in, bytes, MPI_CHARACTER, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
      if (rank == 1) call MPI_Send(out, bytes, MPI_CHARACTER, peer, 1, MPI_COMM_WORLD)
      if (is_checked) then
        if (any(in(:bytes) /= achar(modulo(round, 100)))) call bench_fail('wrong data')
      end if
    end do
    if (rank == 0) print '(I0,T11,F18.4)', bytes, (bench_now() - start) / (2d0 * rounds) * 1d6
  end subroutine
end program
