// Functions of doubles whose code is long: compiled only where a query has one.
#include "prelude.cuh"

// `op`: exp, log, power or fmod, as in elementwise.py. The first two ignore `b`.
KERNEL(real_function)(ARRAY(double) out, ARRAY(const double) a, ARRAY(const double) b, i64 op,
                      i64 size) {
    for (i64 at = thread_of_grid(); at < size; at += threads_of_grid())
        out[at] = op == 0   ? exp(a[at])
                  : op == 1 ? log(a[at])
                  : op == 2 ? pow(a[at], b[at])
                            : fmod(a[at], b[at]);
}
