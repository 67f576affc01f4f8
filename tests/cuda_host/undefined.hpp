// What -fsanitize=undefined calls, in place of libubsan, which ends the process.
//
// Each is told a place in the source first.
#pragma once
#include "faults.hpp"

extern "C" {

struct GdPlace {
    const char* file;
    u32 line, column;
};
#define GD_UNDEFINED(name, what)                                                           \
    [[noreturn]] void __ubsan_handle_##name##_abort(const GdPlace* at) {                   \
        fail_here(format("undefined behaviour at %s:%u: %s", at->file, at->line, what),    \
                  __builtin_frame_address(0));                                             \
    }
GD_UNDEFINED(add_overflow, "a sum overflows")
GD_UNDEFINED(sub_overflow, "a difference overflows")
GD_UNDEFINED(mul_overflow, "a product overflows")
GD_UNDEFINED(negate_overflow, "a negation overflows")
GD_UNDEFINED(divrem_overflow, "a division by zero, or one that overflows")
GD_UNDEFINED(shift_out_of_bounds, "a shift by too many bits")
GD_UNDEFINED(out_of_bounds, "an index outside of a thread's own array")
GD_UNDEFINED(type_mismatch_v1, "a pointer that is badly aligned, or to too small an object")
GD_UNDEFINED(load_invalid_value, "a bool or enum with no value of its type")
GD_UNDEFINED(vla_bound_not_positive, "an array of no elements")
GD_UNDEFINED(invalid_builtin, "a builtin that zero was passed to")
GD_UNDEFINED(float_cast_overflow, "a float that fits no integer")
GD_UNDEFINED(nonnull_arg, "null where none may be")
[[noreturn]] void __ubsan_handle_builtin_unreachable(const GdPlace* at) {
    fail_here(format("undefined behaviour at %s:%u: unreachable", at->file, at->line),
              __builtin_frame_address(0));
}
[[noreturn]] void __ubsan_handle_missing_return(const GdPlace* at) {
    fail_here(format("undefined behaviour at %s:%u: no value is returned", at->file, at->line),
              __builtin_frame_address(0));
}

}  // extern "C"
