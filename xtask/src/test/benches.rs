//! The programs of `benches/osu` and `benches/fortran`: each must compile without a warning, run,
//! and find its data intact. Their speed is not tested.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::{Tally, report_failure};
use crate::command::{capture, line, quietly};
use crate::project::Project;

const LIMIT: Duration = Duration::from_secs(120);

/// Numbers of ranks, and the words of a program on them.
const RUNS: [(&[u32], &str); 40] = [
    (&[2], "latency -c -i 5 -m 0:1048576"),
    (&[2], "partitioned -c -i 5 -m 8:1048576"),
    (&[2], "bw -c -i 3 -m 1:65536"),
    (&[2], "bw -c -n 5 -m 8,4096,65536"),
    (&[2], "bibw -c -i 3 -m 1:65536"),
    (&[2, 5], "mbw_mr -c -i 3 -m 1:65536"),
    (&[2], "strided -c -i 3"),
    (&[2], "section -c -i 3"),
    (&[2], "fortran_latency -c -i 5 -m 1:65536"),
    (&[2], "fortran_section -c -i 3"),
    (&[2], "latency_mt -c -i 5 -t 3 -m 1:65536"),
    (&[2], "mbw_mr_mt -c -i 3 -t 3 -m 1:16384"),
    (&[1, 2, 5], "collective allgather -c -f -i 3 -m 1:65536"),
    (&[1, 2, 5], "collective allreduce -c -f -i 3 -m 4:65536"),
    (&[1, 2, 5], "collective alltoall -c -f -i 3 -m 1:65536"),
    (&[1, 2, 5], "collective barrier -c -f -i 3"),
    (&[1, 2, 5], "collective bcast -c -f -i 3 -m 1:65536"),
    (&[1, 2, 5], "collective gather -c -f -i 3 -m 1:65536"),
    (&[1, 2, 5], "collective reduce -c -f -i 3 -m 4:65536"),
    (&[1, 2, 5], "collective reduce_scatter -c -f -i 3 -m 4:65536"),
    (&[1, 2, 5], "collective scatter -c -f -i 3 -m 1:65536"),
    (&[2, 4], "overlap exchange -c -i 3 -m 1:65536"),
    (&[1, 2, 5], "overlap alltoall -c -i 3 -m 1:65536"),
    (&[1, 2, 5], "overlap allreduce -c -i 3 -T 4 -m 1:65536"),
    (&[1, 2, 5], "init -f"),
    (&[1, 2, 5], "hello"),
    (&[2], "queue -m 10:1000"),
    (&[2], "stages -i 3 -m 8:16"),
    (&[2], "rma put create flush -c -i 3 -m 8:65536"),
    (&[2], "rma put shared lock -c -i 3 -m 8:65536"),
    (&[2], "rma put dynamic pscw -c -i 3 -m 8:65536"),
    (&[2], "rma put_bw allocate fence -c -i 3 -m 8:65536"),
    (&[2], "rma get_bw create shared_lock -i 3 -m 8:65536"),
    (&[2], "rma accumulate allocate lock_all -i 3 -m 8:65536"),
    (&[2], "rma fetch_and_op dynamic flush -i 3"),
    (&[2], "rma compare_and_swap create lock -i 3"),
    (&[2], "rma passive allocate flush -i 3"),
    (&[2], "rma copy shared flush -i 3 -m 8:65536"),
    (&[1], "latency -h"),
    (&[1], "collective -h"),
];

/// The programs in Fortran.
const FORTRAN: [&str; 2] = ["latency", "section"];

/// Compiles all and runs those whose words contain `filter`.
pub(super) fn test(project: &Project, filter: Option<&str>) -> Result<Tally> {
    let programs = project.target.join("osu/checked");
    std::fs::create_dir_all(&programs)?;
    compile(project, &programs)?;
    compile_fortran(project, &programs)?;
    let mut tally = Tally::default();
    for (ranks, words) in
        RUNS.iter().filter(|(_, words)| filter.is_none_or(|filter| words.contains(filter)))
    {
        let (program, args) = words.split_once(' ').unwrap_or((words, ""));
        for ranks in *ranks {
            let mut mpiexec = Command::new(project.prefix().join("bin/mpiexec"));
            mpiexec
                .arg("-n")
                .arg(ranks.to_string())
                .arg(programs.join(program))
                .args(args.split_whitespace());
            let ran = capture(&mut mpiexec, None, LIMIT)?;
            let has_results = ran.stdout.lines().any(|line| !line.starts_with('#'));
            if ran.success() && has_results {
                tally.passed += 1;
            } else {
                report_failure(&line(&mpiexec), &ran.ending(), &ran.output());
                tally.failed += 1;
            }
        }
    }
    Ok(tally)
}

fn compile(project: &Project, programs: &Path) -> Result<()> {
    for entry in std::fs::read_dir(project.root.join("benches/osu"))? {
        let source = entry?.path();
        if source.extension().is_some_and(|extension| extension == "c") {
            let mut mpicc = Command::new(project.prefix().join("bin/mpicc"));
            mpicc.args(["-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]);
            quietly(
                mpicc.arg(programs.join(source.file_stem().unwrap_or_default())).arg(&source),
                LIMIT,
            )?;
        }
    }
    Ok(())
}

/// Each Fortran program with the module that they share, as `fortran_NAME`.
fn compile_fortran(project: &Project, programs: &Path) -> Result<()> {
    let sources = project.root.join("benches/fortran");
    for name in FORTRAN {
        let mut mpifort = Command::new(project.prefix().join("bin/mpifort"));
        mpifort.args(["-fc=gfortran", "-O2", "-Wall", "-Werror", "-J"]).arg(programs);
        mpifort.arg(sources.join("bench_common.f90")).arg(sources.join(format!("{name}.f90")));
        quietly(mpifort.arg("-o").arg(programs.join(format!("fortran_{name}"))), LIMIT)?;
    }
    Ok(())
}
