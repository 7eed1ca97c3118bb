//! Names of services (MPI-5.0 §11.9.4): `mpiexec` keeps them for the whole job, or the keeper of
//! its group for all jobs of it.

use bootstrap::service_names::{MAX_TEXT, NameAnswer, NameRequest};
use objects::{Class, Error, Result};

use crate::own_launcher;

/// Performs MPI_Publish_name: MPI_ERR_SERVICE if the name is published already.
pub fn publish(name: &[u8], port: &[u8]) -> Result<()> {
    match ask(NameRequest::Publish { name: name.to_vec(), value: port.to_vec() })? {
        NameAnswer::Done => Ok(()),
        NameAnswer::Taken => Err(Error::new(
            Class::Service,
            format!(
                "the service name {} is published already: take it back with MPI_Unpublish_name",
                shown(name)
            ),
        )),
        answer => Err(unexpected(name, &answer)),
    }
}

/// Performs MPI_Unpublish_name: MPI_ERR_SERVICE if the name is not published.
pub fn unpublish(name: &[u8]) -> Result<()> {
    match ask(NameRequest::Unpublish { name: name.to_vec() })? {
        NameAnswer::Done => Ok(()),
        NameAnswer::Missing => Err(not_published(Class::Service, name)),
        answer => Err(unexpected(name, &answer)),
    }
}

/// Performs MPI_Lookup_name; returns the port. MPI_ERR_NAME if the name is not published.
pub fn look_up(name: &[u8]) -> Result<Vec<u8>> {
    match ask(NameRequest::Lookup { name: name.to_vec() })? {
        NameAnswer::Value(port) => Ok(port),
        NameAnswer::Missing => Err(not_published(Class::Name, name)),
        answer => Err(unexpected(name, &answer)),
    }
}

/// Sends a request to `mpiexec`, and waits for the answer, which it gives at once.
pub(crate) fn ask(request: NameRequest) -> Result<NameAnswer> {
    let control = own_launcher::launcher().map_err(|why| {
        Error::new(Class::Service, format!("no process keeps names of services: {why}"))
    })?;
    control.ask_name(request).map_err(|error| {
        Error::new(Class::Service, format!("cannot ask mpiexec for a service name: {error}"))
    })
}

fn not_published(class: Class, name: &[u8]) -> Error {
    let (name, yet) = (shown(name), if class == Class::Name { " yet" } else { "" });
    let text = format!(
        "the service name {name} is not published{yet} in this job or its group (mpiexec --group \
         NAME)"
    );
    Error::new(class, text)
}

fn unexpected(name: &[u8], answer: &NameAnswer) -> Error {
    let text = match answer {
        NameAnswer::TooLarge => format!(
            "the service name {} or its port is too long (at most {MAX_TEXT} bytes), or too many \
             names are published",
            shown(name)
        ),
        answer => format!("mpiexec answered {answer:?}; use the mpiexec of this library"),
    };
    Error::new(Class::Service, text)
}

fn shown(name: &[u8]) -> String {
    format!("{:?}", String::from_utf8_lossy(name))
}
