"""What of CuPy's names the stand-in has: functions, their parameters, ufuncs, methods.

From CuPy 14. `test_gpu_stand_in.py` compares them with CuPy where it is installed.
"""

from __future__ import annotations

# Parameters as CuPy 14 has them.
SIGNATURES = {
    # made from nothing
    "arange": "start stop step dtype",
    "empty": "shape dtype order",
    "empty_like": "prototype dtype order subok shape",
    "full": "shape fill_value dtype order",
    "full_like": "a fill_value dtype order subok shape",
    "ones": "shape dtype order",
    "ones_like": "a dtype order subok shape",
    "zeros": "shape dtype order",
    "zeros_like": "a dtype order subok shape",
    # reductions
    "all": "a axis out keepdims",
    "any": "a axis out keepdims",
    "argmax": "a axis dtype out keepdims",
    "argmin": "a axis dtype out keepdims",
    "count_nonzero": "a axis",
    "max": "a axis out keepdims",
    "min": "a axis out keepdims",
    "prod": "a axis dtype out keepdims",
    "sum": "a axis dtype out keepdims",
    "mean": "a axis dtype out keepdims",
    # along an axis
    "cumprod": "a axis dtype out",
    "cumsum": "a axis dtype out",
    "diff": "a n axis prepend append",
    # sorting and searching
    "argsort": "a axis kind",
    "flatnonzero": "a",
    "isin": "element test_elements assume_unique invert",
    "lexsort": "keys",
    "nonzero": "a",
    "searchsorted": "a v side sorter",
    "sort": "a axis kind",
    "unique": "ar return_index return_inverse return_counts axis equal_nan",
    "where": "condition x y",
    "bincount": "x weights minlength",
    # shapes and pieces
    "append": "arr values axis",
    "array_equal": "a1 a2 equal_nan",
    "array_split": "ary indices_or_sections axis",
    "ascontiguousarray": "a dtype",
    "atleast_1d": "arys",
    "broadcast_arrays": "args",
    "broadcast_to": "array shape",
    "column_stack": "tup",
    "compress": "condition a axis out",
    "concatenate": "tup axis out dtype casting",
    "copy": "a order",
    "copyto": "dst src casting where",
    "expand_dims": "a axis",
    "flip": "a axis",
    "hstack": "tup dtype casting",
    "ravel": "a order",
    "repeat": "a repeats axis",
    "reshape": "a newshape order copy",
    "roll": "a shift axis",
    "split": "ary indices_or_sections axis",
    "squeeze": "a axis",
    "stack": "tup axis out dtype casting",
    "swapaxes": "a axis1 axis2",
    "take": "a indices axis out",
    "take_along_axis": "a indices axis",
    "tile": "A reps",
    "transpose": "a axes",
    "vstack": "tup dtype casting",
    "clip": "a a_min a_max out",
    "nan_to_num": "x copy nan posinf neginf",
    "packbits": "a axis bitorder",
    "unpackbits": "a axis bitorder",
}

UFUNCS = """
    abs absolute add bitwise_and bitwise_count bitwise_invert bitwise_left_shift bitwise_not
    bitwise_or bitwise_right_shift bitwise_xor cbrt ceil copysign cos cosh divide equal exp exp2
    expm1 fabs floor floor_divide fmax fmin fmod gcd greater greater_equal hypot invert isfinite
    isinf isnan lcm ldexp left_shift less less_equal log log10 log1p log2 logical_and
    logical_not logical_or logical_xor maximum minimum mod multiply negative nextafter not_equal
    positive pow power reciprocal remainder right_shift rint sign signbit sin sinh sqrt square
    subtract tan tanh true_divide trunc
"""

# Those whose result has a size that only the device knows, and those that look at values.
WAITING = {"flatnonzero", "nonzero", "unique", "bincount", "array_equal", "compress"}

# NumPy's types and plain values, which CuPy has too.
SAME = """
    bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 intp uint
    integer floating number generic signedinteger unsignedinteger dtype iinfo finfo inf nan
    newaxis pi e promote_types issubdtype broadcast_shapes
"""

# Methods that do what the function of the same name does, and have its other parameters.
METHODS = """
    all any argmax argmin max min prod sum mean cumprod cumsum argsort nonzero searchsorted
    repeat take compress swapaxes clip
"""

# Functions whose first argument is an array of the device, and nothing that could become one.
FIRST_IS_ARRAY = """
    lexsort
    all any argmax argmin count_nonzero max min prod sum mean cumprod cumsum diff argsort
    flatnonzero isin nonzero sort unique bincount broadcast_to compress copy expand_dims flip
    ravel reshape roll squeeze swapaxes take take_along_axis transpose
"""

# Parameters that are never arrays of the device: Python asks for numbers there.
PLAIN = """
    shape newshape start stop step axis axis1 axis2 axes dtype repeats reps minlength n shift
    indices_or_sections order kind side
"""
