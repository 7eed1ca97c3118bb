//! `cargo xtask run`: from a fresh clone to real MPI programs on 4 ranks.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, ensure};

use crate::command::{line, show};
use crate::project::Project;
use crate::{demo, install, mpi4py, set_up};

/// What `run` can be told.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The plate for the heat program: any PNG or PGM picture.
    #[arg(long)]
    image: Option<PathBuf>,
    /// How many ranks compute.
    #[arg(long, short = 'n', default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1024))]
    ranks: u32,
    /// Leave mpi4py out.
    #[arg(long)]
    no_python: bool,
}

/// Sets up, builds, installs, and runs mpi4py and the heat program.
pub(crate) fn run(project: &Project, options: &Options) -> Result<()> {
    let start = Instant::now();
    let image = options.image.clone().unwrap_or_else(|| demo::our_image(project));
    ensure!(image.exists(), "{}: no such picture", image.display());
    heading("System packages");
    set_up::set_up()?;
    heading("Build (release) and install");
    let prefix = project.prefix();
    install::install(&prefix)?;
    if !options.no_python {
        heading("mpi4py, built from its source release by our mpicc");
        python(project, options.ranks)?;
    }
    heading(&format!("Heat on a plate, {} ranks", options.ranks));
    let picture = demo::compile(project, &prefix)?.run(&image, options.ranks)?;
    heading(&format!("Done in {:.0} s", start.elapsed().as_secs_f64()));
    println!(
        "  the MPI   {}  (bin/mpicc, bin/mpiexec, lib/libmpi_abi.so.1)",
        project.shown(&prefix)
    );
    println!("  picture   {}", project.shown(&picture));
    println!("\nNext:");
    println!("  export PATH={}:$PATH", prefix.join("bin").display());
    println!("  mpicc yours.c && mpiexec -n 4 ./a.out        your own program");
    println!("  cargo xtask run --image PICTURE.png          heat from another picture");
    println!("  cargo xtask install --prefix DIR             install somewhere else");
    println!("  cargo xtask test                             every test");
    Ok(())
}

fn python(project: &Project, ranks: u32) -> Result<()> {
    let prefix = project.prefix();
    let mpi4py = mpi4py::provide(project, &prefix)?;
    println!("on {}", mpi4py.library_version().trim());
    // pingpong goes to 1 GiB by itself, in every rank: too much for a small machine.
    let benches: [(&str, &[&str]); 3] =
        [("helloworld", &[]), ("ringtest", &[]), ("pingpong", &["--max-size", "16777216"])];
    for (bench, options) in &benches {
        let mut command = mpi4py.on_ranks(&prefix.join("bin/mpiexec"), ranks);
        command.args(["-m", "mpi4py.bench", bench]).args(*options);
        println!("\n$ {}", line(&command));
        show(&mut command)?;
    }
    Ok(())
}

fn heading(text: &str) {
    println!("\n== {text}");
}
