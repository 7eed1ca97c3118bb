//! `cargo xtask run`: from a fresh clone to real MPI programs on 4 ranks.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, ensure};

use crate::install::{self, Build};
use crate::project::Project;
use crate::set_up::{self, Purpose};
use crate::steps::Steps;
use crate::{demo, mpi4py};

/// Options of `run`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The plate for the heat program: a PNG or PGM picture.
    #[arg(long)]
    image: Option<PathBuf>,
    /// The number of ranks.
    #[arg(long, short = 'n', default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1024))]
    ranks: u32,
    /// Leave mpi4py out.
    #[arg(long)]
    no_python: bool,
    /// Show all that programs print, instead of one line for each step.
    #[arg(long, short)]
    verbose: bool,
}

/// Sets up, builds, installs, and runs mpi4py and the heat program.
pub(crate) fn run(project: &Project, options: &Options) -> Result<()> {
    let start = Instant::now();
    let image = options.image.clone().unwrap_or_else(|| demo::our_image(project));
    ensure!(image.exists(), "{}: no such picture", image.display());
    let steps = Steps::start(project, "run", options.verbose)?;
    let purposes = set_up::RUN.iter().copied();
    let purposes: Vec<Purpose> =
        purposes.filter(|purpose| *purpose != Purpose::Python || !options.no_python).collect();
    set_up::packages(&steps, &purposes)?;
    let prefix = project.prefix();
    install::install(project, &steps, &prefix, &Build::Profile("release"))?;
    if !options.no_python {
        python(project, &steps, options.ranks)?;
    }
    let ranks = options.ranks;
    let picture = steps.step(&format!("Heat on a plate, {ranks} ranks"), |step| {
        let runner: crate::command::Runner = &|command| step.run(command);
        let picture = demo::compile(project, &prefix)?.run(&image, ranks, runner)?;
        step.note(format!("agrees with 1 rank bit for bit: {}", project.shown(&picture)));
        Ok(picture)
    })?;
    println!("\nDone in {:.0} s.", start.elapsed().as_secs_f64());
    println!(
        "  the MPI   {}  (bin/mpicc, bin/mpiexec, lib/libmpi_abi.so.1)",
        project.shown(&prefix)
    );
    println!("  picture   {}", project.shown(&picture));
    println!("\nNext:");
    println!("  export PATH={}:$PATH", prefix.join("bin").display());
    println!("  mpicc yours.c && mpiexec -n 4 ./a.out        your own program");
    println!("  cargo xtask run --image PICTURE.png          heat from another picture");
    println!(
        "  cargo xtask install --prefix DIR --pgo       install, 5 to 10 % faster small messages"
    );
    println!("  cargo xtask test                             every test");
    Ok(())
}

fn python(project: &Project, steps: &Steps, ranks: u32) -> Result<()> {
    let prefix = project.prefix();
    let mpi4py = steps.step("mpi4py from its source release, by mpicc", |step| {
        let mpi4py = mpi4py::provide(project, &prefix, &|command| step.run(command))?;
        step.note(mpi4py.library_version().trim());
        Ok(mpi4py)
    })?;
    // pingpong goes to 1 GiB by itself, in every rank: too much for a small machine.
    let benches: [(&str, &[&str]); 3] =
        [("helloworld", &[]), ("ringtest", &[]), ("pingpong", &["--max-size", "16777216"])];
    for (bench, options) in &benches {
        steps.step(&format!("mpi4py {bench}, {ranks} ranks"), |step| {
            let mut command = mpi4py.on_ranks(&prefix.join("bin/mpiexec"), ranks);
            command.args(["-m", "mpi4py.bench", bench]).args(*options);
            let ran = step.capture(&mut command)?;
            step.note(ran.stdout.lines().last().unwrap_or_default().trim());
            Ok(())
        })?;
    }
    Ok(())
}
