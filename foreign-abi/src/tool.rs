//! Events of the tool information interface (MPI-5.0 §15.3.8): functions of the user's get its
//! levels of safety, and datatypes of elements are the program's.

use std::collections::HashMap;
use std::mem::transmute;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use crate::prelude::*;

/// A function of the user's and its data; kept for good, since an event may be on its way.
struct Callback {
    function: *const c_void,
    user_data: *mut c_void,
}

/// The functions for dropped events, by registration.
static DROPPED: LazyLock<Mutex<HashMap<usize, usize>>> = LazyLock::new(Mutex::default);

fn dropped_handlers() -> MutexGuard<'static, HashMap<usize, usize>> {
    DROPPED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn boxed(function: *const c_void, user_data: *mut c_void) -> *mut c_void {
    Box::into_raw(Box::new(Callback { function, user_data })).cast()
}

unsafe extern "C" fn event(
    instance: *mut c_void,
    registration: *mut c_void,
    safety: c_int,
    user_data: *mut c_void,
) {
    type Users = unsafe extern "C" fn(*mut c_void, *mut c_void, c_int, *mut c_void);
    // SAFETY: `user_data` is a `Callback` with a function of this type.
    unsafe {
        let callback = &*user_data.cast::<Callback>();
        let users: Users = transmute(callback.function);
        users(instance, registration, safety_out(safety), callback.user_data);
    }
}

unsafe extern "C" fn freed(registration: *mut c_void, safety: c_int, user_data: *mut c_void) {
    type Users = unsafe extern "C" fn(*mut c_void, c_int, *mut c_void);
    // SAFETY: `user_data` is a `Callback` with a function of this type.
    unsafe {
        let callback = &*user_data.cast::<Callback>();
        let users: Users = transmute(callback.function);
        users(registration, safety_out(safety), callback.user_data);
    }
}

unsafe extern "C" fn dropped(
    count: i64,
    registration: *mut c_void,
    source: c_int,
    safety: c_int,
    user_data: *mut c_void,
) {
    type Users = unsafe extern "C" fn(i64, *mut c_void, c_int, c_int, *mut c_void);
    let Some(function) = dropped_handlers().get(&registration.addr()).copied() else { return };
    // SAFETY: `user_data` is that of the registration's callback, and the function has this type.
    unsafe {
        let function = std::ptr::with_exposed_provenance::<c_void>(function);
        let users: Users = transmute(function);
        let user_data = user_data.cast::<Callback>();
        let user_data = user_data.as_ref().map_or(std::ptr::null_mut(), |it| it.user_data);
        users(count, registration, source, safety_out(safety), user_data);
    }
}

pub(crate) unsafe fn t_event_get_info(
    event_index: c_int,
    name: *mut c_char,
    name_len: *mut c_int,
    verbosity: *mut c_int,
    array_of_datatypes: *mut MPI_Datatype,
    array_of_displacements: *mut i64,
    num_elements: *mut c_int,
    enumtype: *mut *mut c_void,
    info: *mut MPI_Info,
    desc: *mut c_char,
    desc_len: *mut c_int,
    bind: *mut c_int,
) -> c_int {
    // SAFETY: the caller's arguments; each may be null.
    unsafe {
        let room = num_elements.as_ref().map_or(0, |&count| count.max(0) as usize);
        let mut types = vec![MPI_Datatype::NULL; room];
        let mut info_out = MPI_Info::NULL;
        let code = (library().PMPI_T_event_get_info)(
            event_index,
            name,
            name_len,
            verbosity,
            if array_of_datatypes.is_null() { std::ptr::null_mut() } else { types.as_mut_ptr() },
            array_of_displacements,
            num_elements,
            enumtype,
            if info.is_null() { std::ptr::null_mut() } else { &raw mut info_out },
            desc,
            desc_len,
            bind,
        );
        if code == SUCCESS {
            let found = num_elements.as_ref().map_or(0, |&count| count.max(0) as usize);
            if !array_of_datatypes.is_null() {
                for (at, &datatype) in types.iter().take(found).enumerate() {
                    *array_of_datatypes.add(at) = MPI_Datatype::from_standard(datatype);
                }
            }
            if let Some(info) = info.as_mut() {
                *info = MPI_Info::from_standard(info_out);
            }
            if let Some(verbosity) = verbosity.as_mut() {
                *verbosity = verbosity_out(*verbosity);
            }
            if let Some(bind) = bind.as_mut() {
                *bind = bind_out(*bind);
            }
        }
        code::from_standard(code)
    }
}

pub(crate) unsafe fn t_event_register_callback(
    event_registration: *mut c_void,
    cb_safety: c_int,
    info: MPI_Info,
    user_data: *mut c_void,
    event_cb_function: *const c_void,
) -> c_int {
    let (function, user_data) = match event_cb_function.is_null() {
        true => (event_cb_function, user_data),
        false => (event as *const c_void, boxed(event_cb_function, user_data)),
    };
    // SAFETY: the caller's arguments.
    code::from_standard(unsafe {
        (library().PMPI_T_event_register_callback)(
            event_registration,
            safety_in(cb_safety),
            info.to_standard(),
            user_data,
            function,
        )
    })
}

pub(crate) unsafe fn t_event_handle_free(
    event_registration: *mut c_void,
    user_data: *mut c_void,
    free_cb_function: *const c_void,
) -> c_int {
    let (function, user_data) = match free_cb_function.is_null() {
        true => (free_cb_function, user_data),
        false => (freed as *const c_void, boxed(free_cb_function, user_data)),
    };
    dropped_handlers().remove(&event_registration.addr());
    // SAFETY: the caller's arguments.
    code::from_standard(unsafe {
        (library().PMPI_T_event_handle_free)(event_registration, user_data, function)
    })
}

pub(crate) unsafe fn t_event_set_dropped_handler(
    event_registration: *mut c_void,
    dropped_cb_function: *const c_void,
) -> c_int {
    let function = match dropped_cb_function.is_null() {
        true => {
            dropped_handlers().remove(&event_registration.addr());
            dropped_cb_function
        }
        false => {
            let address = dropped_cb_function.expose_provenance();
            dropped_handlers().insert(event_registration.addr(), address);
            dropped as *const c_void
        }
    };
    // SAFETY: the caller's arguments.
    code::from_standard(unsafe {
        (library().PMPI_T_event_set_dropped_handler)(event_registration, function)
    })
}
