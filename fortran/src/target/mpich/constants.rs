//! Handles that `mpi_f08` has as variables of a module: gfortran's name and that of Intel's
//! compilers.

use std::os::raw::c_int;

macro_rules! constants {
    ($($name:literal: $value:literal;)*) => {
        $(const _: () = {
            #[unsafe(export_name = concat!("__mpi_f08_compile_constants_MOD_mpi_", $name))]
            static OF_GFORTRAN: c_int = $value as c_int;
            #[unsafe(export_name = concat!("mpi_f08_compile_constants_mp_mpi_", $name, "_"))]
            static OF_INTEL: c_int = $value as c_int;
        };)*
    };
}

constants! {
    "2double_precision": 0x4c00_1023_u32;
    "2int": 0x4c00_0816_u32;
    "2integer": 0x4c00_0820_u32;
    "2real": 0x4c00_0821_u32;
    "aint": 0x4c00_0843_u32;
    "band": 0x5800_0006_u32;
    "bor": 0x5800_0008_u32;
    "bxor": 0x5800_000a_u32;
    "byte": 0x4c00_010d_u32;
    "c_bool": 0x4c00_013f_u32;
    "c_complex": 0x4c00_0840_u32;
    "c_double_complex": 0x4c00_1041_u32;
    "c_float_complex": 0x4c00_0840_u32;
    "c_long_double_complex": 0x4c00_2042_u32;
    "char": 0x4c00_0101_u32;
    "character": 0x4c00_011a_u32;
    "comm_null": 0x0400_0000_u32;
    "comm_self": 0x4400_0001_u32;
    "comm_world": 0x4400_0000_u32;
    "complex": 0x4c00_081e_u32;
    "complex16": 0x4c00_102a_u32;
    "complex32": 0x4c00_202c_u32;
    "complex8": 0x4c00_0828_u32;
    "count": 0x4c00_0845_u32;
    "cxx_bool": 0x4c00_0133_u32;
    "cxx_double_complex": 0x4c00_1035_u32;
    "cxx_float_complex": 0x4c00_0834_u32;
    "cxx_long_double_complex": 0x4c00_2036_u32;
    "datatype_null": 0x0c00_0000_u32;
    "double": 0x4c00_080b_u32;
    "double_complex": 0x4c00_1022_u32;
    "double_int": 0x8c00_0001_u32;
    "double_precision": 0x4c00_081f_u32;
    "errhandler_null": 0x1400_0000_u32;
    "errors_are_fatal": 0x5400_0000_u32;
    "errors_return": 0x5400_0001_u32;
    "file_null": 0x0000_0000_u32;
    "float": 0x4c00_040a_u32;
    "float_int": 0x8c00_0000_u32;
    "group_empty": 0x4800_0000_u32;
    "group_null": 0x0800_0000_u32;
    "info_env": 0x5c00_0001_u32;
    "info_null": 0x1c00_0000_u32;
    "int": 0x4c00_0405_u32;
    "int16_t": 0x4c00_0238_u32;
    "int32_t": 0x4c00_0439_u32;
    "int64_t": 0x4c00_083a_u32;
    "int8_t": 0x4c00_0137_u32;
    "integer": 0x4c00_041b_u32;
    "integer1": 0x4c00_012d_u32;
    "integer16": 0x0c00_0000_u32;
    "integer2": 0x4c00_022f_u32;
    "integer4": 0x4c00_0430_u32;
    "integer8": 0x4c00_0831_u32;
    "land": 0x5800_0005_u32;
    "lb": 0x4c00_0010_u32;
    "logical": 0x4c00_041d_u32;
    "logical1": 0x4c00_0147_u32;
    "logical16": 0x0c00_0000_u32;
    "logical2": 0x4c00_0248_u32;
    "logical4": 0x4c00_0449_u32;
    "logical8": 0x4c00_084a_u32;
    "long": 0x4c00_0807_u32;
    "long_double": 0x4c00_100c_u32;
    "long_double_int": 0x8c00_0004_u32;
    "long_int": 0x8c00_0002_u32;
    "long_long": 0x4c00_0809_u32;
    "long_long_int": 0x4c00_0809_u32;
    "lor": 0x5800_0007_u32;
    "lxor": 0x5800_0009_u32;
    "max": 0x5800_0001_u32;
    "maxloc": 0x5800_000c_u32;
    "message_no_proc": 0x6c00_0000_u32;
    "message_null": 0x2c00_0000_u32;
    "min": 0x5800_0002_u32;
    "minloc": 0x5800_000b_u32;
    "no_op": 0x5800_000e_u32;
    "offset": 0x4c00_0844_u32;
    "op_null": 0x1800_0000_u32;
    "packed": 0x4c00_010f_u32;
    "prod": 0x5800_0004_u32;
    "real": 0x4c00_041c_u32;
    "real16": 0x4c00_102b_u32;
    "real4": 0x4c00_0427_u32;
    "real8": 0x4c00_0829_u32;
    "replace": 0x5800_000d_u32;
    "request_null": 0x2c00_0000_u32;
    "session_null": 0x3800_0000_u32;
    "short": 0x4c00_0203_u32;
    "short_int": 0x8c00_0003_u32;
    "signed_char": 0x4c00_0118_u32;
    "sum": 0x5800_0003_u32;
    "ub": 0x4c00_0011_u32;
    "uint16_t": 0x4c00_023c_u32;
    "uint32_t": 0x4c00_043d_u32;
    "uint64_t": 0x4c00_083e_u32;
    "uint8_t": 0x4c00_013b_u32;
    "unsigned": 0x4c00_0406_u32;
    "unsigned_char": 0x4c00_0102_u32;
    "unsigned_long": 0x4c00_0808_u32;
    "unsigned_long_long": 0x4c00_0819_u32;
    "unsigned_short": 0x4c00_0204_u32;
    "wchar": 0x4c00_040e_u32;
    "win_null": 0x2000_0000_u32;
}
