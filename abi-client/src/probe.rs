//! The probe of [`Integers`](crate::integers::Integers) for requests.

/// Makes a request by functions of the standard ABI, and returns whether the library turns its
/// integer back into it. The request is of no communicator, and active meanwhile.
#[macro_export]
macro_rules! request_comes_back {
    ($null:expr, $start:expr, $complete:expr, $free:expr, $to:expr, $from:expr) => {{
        use std::os::raw::{c_int, c_void};

        unsafe extern "C" fn query(_: *mut c_void, _: *mut c_void) -> c_int {
            0
        }
        unsafe extern "C" fn free(_: *mut c_void) -> c_int {
            0
        }
        unsafe extern "C" fn cancel(_: *mut c_void, _: c_int) -> c_int {
            0
        }
        let mut request = $null;
        // SAFETY: functions of the types that MPI calls them by, which use no state, and the
        // address of a handle. The request is complete when it is freed.
        unsafe {
            let code = $start(
                query as *const c_void,
                free as *const c_void,
                cancel as *const c_void,
                std::ptr::null_mut(),
                &raw mut request,
            );
            code == 0 && {
                let comes_back = $from($to(request)) == request;
                $complete(request);
                $free(&raw mut request);
                comes_back
            }
        }
    }};
}
pub use request_comes_back;
