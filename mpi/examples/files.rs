//! Files: each rank reads and writes its part, alone and together, by offsets, pointers and views.

#![deny(warnings)]

use std::io::SeekFrom;
use std::path::{Path, PathBuf};

use mpi::datatype::UserDatatype;
use mpi::error::MpiError;
use mpi::ffi;
use mpi::file::{File, OpenOptions};
use mpi::traits::*;

/// The elements that each rank writes.
const EACH: usize = 1000;

fn main() -> Result<(), MpiError> {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let path = common_path(&world);
    missing_files_are_errors(&world, &path);
    parts_by_offset(&world, &path)?;
    parts_by_pointer(&world, &path)?;
    shared_pointer(&world, &path)?;
    views(&world, &path)?;
    immediate(&world, &path)?;
    sizes_and_hints(&world, &path)?;
    world.barrier();
    if world.rank() == 0 {
        File::delete(&path)?;
        assert!(!path.exists());
    }
    Ok(())
}

/// Rank 0 chooses a name for all.
fn common_path(comm: &impl Communicator) -> PathBuf {
    let mut name = [0_u8; 32];
    if comm.rank() == 0 {
        let text = format!("mpi-files-{}", std::process::id());
        name[..text.len()].copy_from_slice(text.as_bytes());
    }
    comm.process_at_rank(0).broadcast_into(&mut name[..]);
    let text = std::str::from_utf8(&name).expect("a name of ASCII letters");
    std::env::temp_dir().join(text.trim_end_matches('\0'))
}

fn read_write() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true);
    options
}

/// The numbers that a rank writes.
fn numbers(rank: i32) -> Vec<i32> {
    (0..EACH as i32).map(|index| 10_000 * rank + index).collect()
}

fn missing_files_are_errors(comm: &impl Communicator, path: &Path) {
    let error = File::open(comm, path, OpenOptions::new().read(true)).unwrap_err();
    assert_eq!(error.class(), ffi::MPI_ERR_NO_SUCH_FILE);
    let text = error.to_string();
    assert!(text.starts_with("MPI_File_open: ") && text.len() > 20, "{text}");
    let error = File::delete(path).unwrap_err();
    assert_eq!(error.class(), ffi::MPI_ERR_NO_SUCH_FILE);
    assert!(File::open(comm, "with\0zero", &read_write()).is_err());
    // Neither for reading nor for writing.
    let error = File::open(comm, path, &OpenOptions::new()).unwrap_err();
    assert_eq!(error.class(), ffi::MPI_ERR_AMODE);
}

fn parts_by_offset(comm: &impl Communicator, path: &Path) -> Result<(), MpiError> {
    let mine = numbers(comm.rank());
    let bytes = (size_of::<i32>() * EACH) as u64;
    let of = |rank: i32| bytes * rank as u64;
    let file = File::open(comm, path, OpenOptions::new().read(true).write(true).create_new(true))?;
    file.write_at_all(of(comm.rank()), &mine)?;
    file.sync()?;
    comm.barrier();
    file.sync()?;
    let next = (comm.rank() + 1) % comm.size();
    let mut theirs = vec![0_i32; EACH];
    assert_eq!(file.read_at(of(next), &mut theirs)?, EACH);
    assert_eq!(theirs, numbers(next));
    assert_eq!(file.size()?, of(comm.size()));
    // At the end of the file there are fewer elements, and the last one in part.
    let near_end = of(comm.size()) - 10;
    assert_eq!(file.read_at(near_end, &mut theirs[..])?, 2);
    assert_eq!(file.read_at_all(of(comm.size()), &mut theirs)?, 0);
    comm.barrier();

    // Each rank alone, one after the other in the part of the next.
    file.write_at(of(next), &[next, -1])?;
    file.sync()?;
    comm.barrier();
    file.sync()?;
    let mut two = [0; 2];
    assert_eq!(file.read_at_all(of(comm.rank()), &mut two)?, 2);
    assert_eq!(two, [comm.rank(), -1]);
    file.close()?;

    let again = OpenOptions::new().write(true).create_new(true).clone();
    let error = File::open(comm, path, &again).unwrap_err();
    assert_eq!(error.class(), ffi::MPI_ERR_FILE_EXISTS);
    let file = File::open(comm, path, OpenOptions::new().read(true))?;
    let error = file.write_at(0, &two).unwrap_err();
    assert!([ffi::MPI_ERR_READ_ONLY, ffi::MPI_ERR_ACCESS].contains(&error.class()), "{error}");
    Ok(())
}

fn parts_by_pointer(comm: &impl Communicator, path: &Path) -> Result<(), MpiError> {
    let number = u64::equivalent_datatype();
    let file = File::open(comm, path, &read_write())?;
    file.set_view(8 * 10 * comm.rank() as u64, &number, &number)?;
    let mine: Vec<u64> = (0..10).map(|index| index + 100 * comm.rank() as u64).collect();
    file.write_all(&mine[..5])?;
    file.write(&mine[5..])?;
    assert_eq!(file.position()?, 10);
    assert_eq!(file.byte_offset(10)?, 8 * 10 * (comm.rank() as u64 + 1));
    assert_eq!(file.seek(SeekFrom::Start(1))?, 1);
    let mut read = [0_u64; 4];
    assert_eq!(file.read(&mut read)?, 4);
    assert_eq!(read, mine[1..5]);
    assert_eq!(file.seek(SeekFrom::Current(2))?, 7);
    assert_eq!(file.read_all(&mut read[..3])?, 3);
    assert_eq!(read[..3], mine[7..]);
    assert!(file.seek(SeekFrom::Current(-11)).is_err());
    file.close()
}

fn shared_pointer(comm: &impl Communicator, path: &Path) -> Result<(), MpiError> {
    let (rank, size) = (comm.rank(), comm.size() as usize);
    let number = i32::equivalent_datatype();
    let file = File::open(comm, path, &read_write())?;
    file.set_size(0)?;
    file.set_view(0, &number, &number)?;
    file.write_ordered(&[rank, rank])?;
    comm.barrier();
    assert_eq!(file.position_shared()?, 2 * size as u64);
    comm.barrier();
    file.write_shared(&(100 + rank))?;
    file.sync()?;
    comm.barrier();
    file.sync()?;
    file.seek_shared(SeekFrom::Start(0))?;
    let mut pair = [0; 2];
    assert_eq!(file.read_ordered(&mut pair)?, 2);
    assert_eq!(pair, [rank, rank]);
    let mut one = 0;
    assert_eq!(file.read_shared(&mut one)?, 1);
    assert!((100..100 + size as i32).contains(&one));
    file.close()
}

/// The ranks' elements alternate in the file.
fn views(comm: &impl Communicator, path: &Path) -> Result<(), MpiError> {
    let (rank, size) = (comm.rank(), comm.size() as usize);
    let number = i32::equivalent_datatype();
    let every = UserDatatype::subarray(&[2 * size], &[2], &[2 * rank as usize], &number);
    let file = File::open(comm, path, &read_write())?;
    file.set_size(0)?;
    file.set_view(8, &number, &every)?;
    let mine = numbers(rank);
    file.write_at_all(0, &mine)?;
    let mut read = vec![0_i32; EACH];
    assert_eq!(file.read_at(0, &mut read)?, EACH);
    assert_eq!(read, mine);

    file.sync()?;
    comm.barrier();
    file.sync()?;
    let byte = u8::equivalent_datatype();
    file.set_view(0, &byte, &byte)?;
    let mut all = vec![-1_i32; EACH * size];
    assert_eq!(file.read_at_all(8, &mut all)?, EACH * size);
    for (index, &found) in all.iter().enumerate() {
        let (round, place) = (index / (2 * size), index % (2 * size));
        assert_eq!(found, 10_000 * (place / 2) as i32 + (2 * round + place % 2) as i32);
    }

    // The odd elements of all ranks by a resized datatype.
    let odd = UserDatatype::resized(0, 8, &number);
    file.set_view(12, &number, &odd)?;
    let mut odds = vec![0_i32; EACH * size / 2];
    assert_eq!(file.read_all(&mut odds)?, EACH * size / 2);
    assert!(odds.iter().zip(all.chunks(2)).all(|(&odd, pair)| odd == pair[1]));
    file.close()
}

fn immediate(comm: &impl Communicator, path: &Path) -> Result<(), MpiError> {
    let bytes = (size_of::<i32>() * EACH) as u64;
    let mine = numbers(comm.rank());
    let own = bytes * comm.rank() as u64;
    let (mut read, mut again) = (vec![0_i32; EACH], vec![0_i32; EACH]);
    let file = File::open(comm, path, &read_write())?;
    mpi::request::scope(|scope| {
        file.immediate_write_at(scope, own, &mine[..])?.wait();
        let status = file.immediate_read_at(scope, own, &mut read[..])?.wait();
        assert_eq!(status.count(i32::equivalent_datatype()), EACH as i32);
        Ok::<(), MpiError>(())
    })?;
    assert_eq!(read, mine);
    mpi::request::scope(|scope| {
        file.immediate_write_at_all(scope, own, &mine[..])?.wait();
        file.immediate_read_at_all(scope, own, &mut again[..])?.wait();
        Ok::<(), MpiError>(())
    })?;
    assert_eq!(again, mine);
    Ok(())
}

fn sizes_and_hints(comm: &impl Communicator, path: &Path) -> Result<(), MpiError> {
    let temporary = path.with_extension("temporary");
    let mut options = read_write();
    options.delete_on_close(true).hint("cb_buffer_size", "1048576");
    let file = File::open(comm, &temporary, &options)?;
    let value = |key: &str| -> Result<Option<String>, MpiError> {
        Ok(file.hints()?.into_iter().find(|(name, _)| name == key).map(|(_, value)| value))
    };
    assert_eq!(value("cb_buffer_size")?.as_deref(), Some("1048576"));
    file.set_hints(&[("no_such_hint", "1")])?;
    file.preallocate(5000)?;
    assert_eq!(file.size()?, 5000);
    file.set_size(100)?;
    assert_eq!(file.size()?, 100);
    assert!(!file.is_atomic()?);
    file.set_atomicity(true)?;
    assert!(file.is_atomic()?);
    comm.barrier();
    drop(file);
    comm.barrier();
    assert!(!temporary.exists());

    let file = File::open(comm, path, OpenOptions::new().write(true).append(true))?;
    assert_eq!(file.position()?, file.size()?);
    file.close()
}
