// The names of gpu_ops/kernels/prelude.cuh for a host: in front of a kernel's source, with GD_HOST
// defined. What happens behind them is in fibers.cpp, which is compiled once.
//
// Nothing is included, since each source that a test makes is compiled anew.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;

// ----------------------------------------------------------------- what fibers.cpp has for these

struct GdWhere {
    int thread, threads, block, blocks;
};

// What an atomic does.
enum GdOrder { GD_LOADS = 1, GD_STORES = 2, GD_ACQUIRES = 4, GD_RELEASES = 8 };

enum GdKind { GD_SYNC, GD_BALLOT, GD_SHUFFLE, GD_SHUFFLE_XOR, GD_SHUFFLE_UP };

extern "C" {
extern GdWhere gd_where;      // of the fiber that runs
extern i64 gd_accesses_left;  // accesses of arrays until another fiber may go on
void gd_access();
void gd_yield();
void gd_atomic(void* address, int bytes, int order);  // it comes next
void gd_atomic_end();
void gd_pause(int nanoseconds);
i64 gd_nanoseconds();
void gd_block_sync();
u64 gd_meet(int kind, u32 mask, u64 value, int argument);
void* gd_shared(const void* key, i64 bytes, const char* name);
[[noreturn]] void gd_outside(const char* name, i64 index, i64 length);
[[noreturn]] void gd_outside_slice(const char* name, i64 start, i64 length, i64 of);
}

// What CUDA has without a header too.
extern "C" {
double exp(double), log(double), pow(double, double), fmod(double, double), fabs(double);
double floor(double), ceil(double), sqrt(double), trunc(double);
}

// ------------------------------------------------------------------------------ kernels and arrays

#define GD_AT_ONCE __attribute__((always_inline)) inline
// Not inlined: who meets in a collective is told by the calls that led there. `inline` nevertheless,
// for g++ makes code of such functions only where a kernel calls them.
#define DEVICE [[maybe_unused]] __attribute__((noinline)) static inline
#define APART DEVICE
#define METHOD GD_AT_ONCE
#define KERNEL(name) DEVICE void name
#define KERNEL_OF_BLOCKS(blocks, name) KERNEL(name)
#define RESTRICT

template <class T>
struct Array {
    T* data = nullptr;
    i64 length = 0;
    const char* name = "an array that was never set";

    Array() = default;
    GD_AT_ONCE Array(T* data, i64 length, const char* name)
        : data(data), length(length), name(name) {}
    // As T* becomes const T*.
    GD_AT_ONCE operator Array<const T>() const { return {data, length, name}; }

    GD_AT_ONCE T& operator[](i64 i) const {
        if ((u64)i >= (u64)length) gd_outside(name, i, length);
        if (--gd_accesses_left < 0) gd_access();
        return data[i];
    }
};
template <class T>
struct Array<const T> {
    const T* data = nullptr;
    i64 length = 0;
    const char* name = "an array that was never set";

    Array() = default;
    GD_AT_ONCE Array(const T* data, i64 length, const char* name)
        : data(data), length(length), name(name) {}

    GD_AT_ONCE const T& operator[](i64 i) const {
        if ((u64)i >= (u64)length) gd_outside(name, i, length);
        if (--gd_accesses_left < 0) gd_access();
        return data[i];
    }
};
#define ARRAY(T) Array<T>

// One of each block, found by the address of a variable of the function that asks.
#define SHARED(T, name, count)                                                                \
    static char gd_key_of_##name;                                                             \
    const Array<T> name {                                                                     \
        (T*)gd_shared(&gd_key_of_##name, (i64)sizeof(T) * (count), #name), (count), #name     \
    }

#define ROOM(T, name, count) SHARED(T, name, count)

template <class T>
DEVICE Array<T> slice(Array<T> array, i64 start, i64 length) {
    if (start < 0 || length < 0 || start > array.length || length > array.length - start)
        gd_outside_slice(array.name, start, length, array.length);
    return {array.data + start, length, array.name};
}
template <class T>  // of a thread's own array
DEVICE Array<T> slice(T* array, i64 start, i64 length) {
    if (start < 0 || length < 0) gd_outside_slice("a thread's own array", start, length, -1);
    return {array + start, length, "a thread's own array"};
}

template <class A, class B>
DEVICE bool same_array(Array<A> a, Array<B> b) {
    return (const void*)a.data == (const void*)b.data;
}

struct Bytes {
    u8* data;
    i64 length;
    const char* name;
};
template <class T>
DEVICE Array<T> array_of(Bytes bytes) {
    return {(T*)bytes.data, bytes.length / (i64)sizeof(T), bytes.name};
}

template <class T>
DEVICE Array<T> array_of(Array<u8> bytes) {
    return {(T*)bytes.data, bytes.length / (i64)sizeof(T), bytes.name};
}

// ---------------------------------------------------------------------------------- where we are

DEVICE int thread_of_block() { return gd_where.thread; }
DEVICE int threads_of_block() { return gd_where.threads; }
DEVICE int block_of_grid() { return gd_where.block; }
DEVICE int blocks_of_grid() { return gd_where.blocks; }
DEVICE i64 thread_of_grid() { return (i64)gd_where.block * gd_where.threads + gd_where.thread; }
DEVICE i64 threads_of_grid() { return (i64)gd_where.blocks * gd_where.threads; }
DEVICE void block_sync() { gd_block_sync(); }

// --------------------------------------------------------------------------------------- a warp

template <class T>
struct GdWord;  // what a shuffle can carry
#define GD_WORD(T)                                                 \
    template <>                                                    \
    struct GdWord<T> {                                             \
        static GD_AT_ONCE u64 to(T value) { return (u64)value; }   \
        static GD_AT_ONCE T from(u64 word) { return (T)word; }     \
    };
GD_WORD(i32)
GD_WORD(u32)
GD_WORD(i64)
GD_WORD(u64)
#undef GD_WORD

DEVICE double double_of_bits(i64 bits) {
    double value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}
DEVICE i64 bits_of_double(double value) {
    i64 bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return bits;
}

template <>
struct GdWord<double> {
    static GD_AT_ONCE u64 to(double value) { return (u64)bits_of_double(value); }
    static GD_AT_ONCE double from(u64 word) { return double_of_bits((i64)word); }
};

DEVICE u32 warp_ballot(u32 mask, bool yes) { return (u32)gd_meet(GD_BALLOT, mask, yes, 0); }
DEVICE void warp_sync(u32 mask) { gd_meet(GD_SYNC, mask, 0, 0); }
template <class T>
DEVICE T warp_shuffle(u32 mask, T value, int lane) {
    typedef GdWord<T> Word;
    return Word::from(gd_meet(GD_SHUFFLE, mask, Word::to(value), lane));
}
template <class T>
DEVICE T warp_shuffle_xor(u32 mask, T value, int lanes) {
    typedef GdWord<T> Word;
    return Word::from(gd_meet(GD_SHUFFLE_XOR, mask, Word::to(value), lanes));
}
template <class T>
DEVICE T warp_shuffle_up(u32 mask, T value, int by) {
    typedef GdWord<T> Word;
    return Word::from(gd_meet(GD_SHUFFLE_UP, mask, Word::to(value), by));
}

// --------------------------------------------------------------------------------------- words

DEVICE int bits_of(u32 word) { return __builtin_popcount(word); }
DEVICE int bits_of(u64 word) { return __builtin_popcountll(word); }
DEVICE int lowest_bit(u32 word) { return __builtin_ffs((i32)word) - 1; }
DEVICE int lowest_bit(u64 word) { return __builtin_ffsll((i64)word) - 1; }
DEVICE int highest_bit(u32 word) { return word == 0u ? -1 : 31 - __builtin_clz(word); }
DEVICE int highest_bit(u64 word) { return word == 0u ? -1 : 63 - __builtin_clzll(word); }

// ------------------------------------------------------------------------------------- atomics
//
// Another fiber may go on before each. Sums wrap, as a GPU's do.

#define GD_ATOMIC(T, name, order, result)                            \
    DEVICE T name(Array<T> a, i64 i, T by) {                         \
        gd_yield();                                                  \
        T& place = a[i];                                             \
        gd_atomic(&place, sizeof(T), GD_LOADS | GD_STORES | order);  \
        const T old = place;                                         \
        place = (T)(result);                                         \
        gd_atomic_end();                                             \
        return old;                                                  \
    }
GD_ATOMIC(u16, atomic_add, 0, (u32)old + (u32)by)
GD_ATOMIC(i32, atomic_add, 0, (u32)old + (u32)by)
GD_ATOMIC(u32, atomic_add, 0, old + by)
GD_ATOMIC(i64, atomic_add, 0, (u64)old + (u64)by)
GD_ATOMIC(u64, atomic_add, 0, old + by)
GD_ATOMIC(u32, atomic_or, 0, old | by)
GD_ATOMIC(u64, atomic_or, 0, old | by)
GD_ATOMIC(i64, atomic_or, 0, old | by)
GD_ATOMIC(i64, atomic_min, 0, by < old ? by : old)
GD_ATOMIC(i64, atomic_max, 0, by > old ? by : old)
GD_ATOMIC(i64, add_acquire_release, GD_ACQUIRES | GD_RELEASES, (u64)old + (u64)by)
#undef GD_ATOMIC

#define GD_CAS(T)                                                    \
    DEVICE T atomic_cas(Array<T> a, i64 i, T expected, T value) {    \
        gd_yield();                                                  \
        T& place = a[i];                                             \
        gd_atomic(&place, sizeof(T), GD_LOADS | GD_STORES);          \
        const T old = place;                                         \
        if (old == expected) place = value;                          \
        gd_atomic_end();                                             \
        return old;                                                  \
    }
GD_CAS(i32)
GD_CAS(i64)
#undef GD_CAS

static GD_AT_ONCE i64 gd_load(Array<const i64> a, i64 i, int order) {
    gd_yield();
    const i64& place = a[i];
    gd_atomic((void*)&place, sizeof(i64), GD_LOADS | order);
    const i64 value = place;
    gd_atomic_end();
    return value;
}
static GD_AT_ONCE void gd_store(Array<i64> a, i64 i, i64 value, int order) {
    gd_yield();
    i64& place = a[i];
    gd_atomic(&place, sizeof(i64), GD_STORES | order);
    place = value;
    gd_atomic_end();
}
DEVICE i64 load_relaxed(Array<const i64> a, i64 i) { return gd_load(a, i, 0); }
DEVICE void store_relaxed(Array<i64> a, i64 i, i64 value) { gd_store(a, i, value, 0); }
DEVICE i64 load_acquire(Array<const i64> a, i64 i) { return gd_load(a, i, GD_ACQUIRES); }
DEVICE void store_release(Array<i64> a, i64 i, i64 value) { gd_store(a, i, value, GD_RELEASES); }

// --------------------------------------------------------------------------------------- clocks

DEVICE i64 nanoseconds() { return gd_nanoseconds(); }
DEVICE i64 ticks() { return gd_nanoseconds(); }
DEVICE void pause(int nanoseconds) { gd_pause(nanoseconds); }

// ------------------------------------------------------------- what Python launches (driver.py)
//
// A kernel's arguments come as pairs of words: where an array is and how long, or a value and 0.

template <class T>
struct GdParameter;
template <>
struct GdParameter<i64> {
    static const char* type() { return "i64"; }
    static i64 from(const u64* words, const char*) { return (i64)words[0]; }
};
template <>
struct GdParameter<double> {
    static const char* type() { return "double"; }
    static double from(const u64* words, const char*) { return double_of_bits((i64)words[0]); }
};
template <>
struct GdParameter<Bytes> {
    static const char* type() { return "bytes"; }
    static Bytes from(const u64* words, const char* name) {
        return {(u8*)words[0], (i64)words[1], name};
    }
};
#define GD_ELEMENT(T, code)                                                      \
    template <>                                                                  \
    struct GdParameter<Array<T>> {                                               \
        static const char* type() { return code; }                               \
        static Array<T> from(const u64* words, const char* name) {               \
            return {(T*)words[0], (i64)words[1], name};                          \
        }                                                                        \
    };                                                                           \
    template <>                                                                  \
    struct GdParameter<Array<const T>> {                                         \
        static const char* type() { return "const " code; }                      \
        static Array<const T> from(const u64* words, const char* name) {         \
            return {(const T*)words[0], (i64)words[1], name};                    \
        }                                                                        \
    };
GD_ELEMENT(u8, "u1")
GD_ELEMENT(u16, "u2")
GD_ELEMENT(i32, "i4")
GD_ELEMENT(u32, "u4")
GD_ELEMENT(i64, "i8")
GD_ELEMENT(u64, "u8")
GD_ELEMENT(double, "f8")
#undef GD_ELEMENT

template <int... I>
struct GdIndices {};
template <int N, int... I>
struct GdUpTo : GdUpTo<N - 1, N - 1, I...> {};
template <int... I>
struct GdUpTo<0, I...> {
    typedef GdIndices<I...> type;
};

template <class... P, int... I>
static void gd_call(void (*kernel)(P...), const u64* words, const char* const* names,
                    GdIndices<I...>) {
    kernel(GdParameter<P>::from(words + 2 * I, names[I])...);
}
template <class... P>
static void gd_start(void (*kernel)(P...), const u64* words, const char* const* names) {
    gd_call(kernel, words, names, typename GdUpTo<(int)sizeof...(P)>::type());
}
// Writes the types of a kernel's parameters to `out`, and gives their number.
template <class... P>
static int gd_types_of(void (*)(P...), const char** out) {
    const char* types[] = {GdParameter<P>::type()..., nullptr};
    for (unsigned i = 0; i < sizeof...(P); i++) out[i] = types[i];
    return (int)sizeof...(P);
}
#define GD_LAUNCHED(kernel, ...)                                                         \
    extern "C" void gd_start_##kernel(const u64* gd_words) {                             \
        static const char* const gd_names[] = {__VA_ARGS__};                             \
        gd_start(kernel, gd_words, gd_names);                                            \
    }                                                                                    \
    extern "C" int gd_types_##kernel(const char** gd_out) {                              \
        return gd_types_of(kernel, gd_out);                                              \
    }
