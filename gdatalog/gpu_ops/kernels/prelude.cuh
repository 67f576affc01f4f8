// The primitives of all kernels: type names, arrays, atomics, clocks.
//
// Sources are compiled in two ways. NVRTC (or nvcc) compiles them for a GPU as they are. g++
// compiles them for the host, with GD_HOST defined and a header included first that defines the
// same names for testing: an array that knows its length and checks its bounds, a fiber for each
// thread, and atomics at which another thread may be scheduled.
//
// So kernels use CUDA only through these names, and include no header.
#pragma once

#ifndef GD_HOST

typedef unsigned char u8;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;

// KERNEL(name)(ARRAY(const i32) values, i64 count) { ... }: a kernel that the host launches.
// A source may define BOUNDS before, with which the compiler uses fewer registers.
#ifndef BOUNDS
#define BOUNDS
#endif
#define KERNEL(name) extern "C" __global__ void BOUNDS name
// The same, of 256 threads a block; registers are few enough for so many blocks at once.
#define KERNEL_OF_BLOCKS(blocks, name) extern "C" __global__ void __launch_bounds__(256, blocks) name
#define DEVICE static __device__ __forceinline__
#define METHOD __device__ __forceinline__
#define APART static __device__ __noinline__
#define RESTRICT __restrict__

// Array access: never by bare pointers or computed addresses. Functions take arrays as template
// parameters.
template <class T>
using Array = T*;
#define ARRAY(T) T* RESTRICT

// `SHARED(u32, counts, 32);` declares an array in a block's shared memory.
#define SHARED(T, name, count) __shared__ T name[count]
// The same for as many entries as the launch has given the block room for.
#define ROOM(T, name, count) extern __shared__ __align__(16) T name[]

// The part of an array from `start` on; the checked host build enforces `length`.
template <class T>
DEVICE T* slice(T* array, i64 start, i64 length) {
    return array + start;
}

template <class A, class B>
DEVICE bool same_array(A a, B b) {
    return (const void*)a == (const void*)b;
}

// An argument that is an array of any type. Two of them may be the same array.
typedef u8* Bytes;
template <class T>
DEVICE T* array_of(Bytes bytes) {
    return (T*)bytes;
}

// ---------------------------------------------------------------------------------- where we are

DEVICE int thread_of_block() { return (int)threadIdx.x; }
DEVICE int threads_of_block() { return (int)blockDim.x; }
DEVICE int block_of_grid() { return (int)blockIdx.x; }
DEVICE int blocks_of_grid() { return (int)gridDim.x; }
DEVICE i64 thread_of_grid() { return (i64)blockIdx.x * blockDim.x + threadIdx.x; }
DEVICE i64 threads_of_grid() { return (i64)gridDim.x * blockDim.x; }
DEVICE void block_sync() { __syncthreads(); }

// --------------------------------------------------------------------------------------- a warp
//
// `mask` names the lanes of a collective: exactly these lanes must make the same call.

DEVICE u32 warp_ballot(u32 mask, bool yes) { return __ballot_sync(mask, yes); }
DEVICE void warp_sync(u32 mask) { __syncwarp(mask); }
template <class T>
DEVICE T warp_shuffle(u32 mask, T value, int lane) {
    return __shfl_sync(mask, value, lane);
}
template <class T>
DEVICE T warp_shuffle_xor(u32 mask, T value, int lanes) {
    return __shfl_xor_sync(mask, value, lanes);
}
template <class T>
DEVICE T warp_shuffle_up(u32 mask, T value, int by) {  // by lanes of the warp
    return __shfl_up_sync(mask, value, by);
}

// --------------------------------------------------------------------------------------- words

DEVICE int bits_of(u32 word) { return __popc(word); }
DEVICE int bits_of(u64 word) { return __popcll(word); }
DEVICE int lowest_bit(u32 word) { return __ffs((int)word) - 1; }  // -1 if there is none
DEVICE int lowest_bit(u64 word) { return __ffsll((i64)word) - 1; }
DEVICE int highest_bit(u32 word) { return 31 - __clz((int)word); }  // -1 if there is none
DEVICE int highest_bit(u64 word) { return 63 - __clzll((i64)word); }
DEVICE double double_of_bits(i64 bits) { return __longlong_as_double(bits); }
DEVICE i64 bits_of_double(double value) { return __double_as_longlong(value); }

// ------------------------------------------------------------------------------------- atomics
//
// Relaxed, unless the name says otherwise. Each returns the old value.

DEVICE i32 atomic_add(i32* a, i64 i, i32 by) { return atomicAdd(a + i, by); }
// Within the word of 32 bits; a sum must not exceed 16. The word's address is computed from the array,
// because the compiler does not know of a number whether it is an address in shared memory.
DEVICE u16 atomic_add(u16* a, i64 i, u16 by) {
    const int second = (int)((u64)(a + i) >> 1 & 1), shift = second * 16;
    return (u16)(atomicAdd((u32*)(a + (i - second)), (u32)by << shift) >> shift);
}
DEVICE u32 atomic_add(u32* a, i64 i, u32 by) { return atomicAdd(a + i, by); }
DEVICE i64 atomic_add(i64* a, i64 i, i64 by) { return (i64)atomicAdd((u64*)(a + i), (u64)by); }
DEVICE u64 atomic_add(u64* a, i64 i, u64 by) { return atomicAdd(a + i, by); }
DEVICE u32 atomic_or(u32* a, i64 i, u32 bits) { return atomicOr(a + i, bits); }
DEVICE u64 atomic_or(u64* a, i64 i, u64 bits) { return atomicOr(a + i, bits); }
DEVICE i64 atomic_or(i64* a, i64 i, i64 bits) { return (i64)atomicOr((u64*)(a + i), (u64)bits); }
DEVICE i64 atomic_min(i64* a, i64 i, i64 by) { return atomicMin(a + i, by); }
DEVICE i64 atomic_max(i64* a, i64 i, i64 by) { return atomicMax(a + i, by); }
DEVICE i32 atomic_cas(i32* a, i64 i, i32 expected, i32 value) {
    return atomicCAS(a + i, expected, value);
}
DEVICE i64 atomic_cas(i64* a, i64 i, i64 expected, i64 value) {
    return (i64)atomicCAS((u64*)(a + i), (u64)expected, (u64)value);
}

// One word of global memory that other blocks read or write. Acquire and release order other
// accesses; relaxed ones only guarantee that the word is whole.
DEVICE i64 load_relaxed(const i64* a, i64 i) {
    i64 value;
    asm volatile("ld.relaxed.gpu.global.s64 %0, [%1];" : "=l"(value) : "l"(a + i) : "memory");
    return value;
}
DEVICE void store_relaxed(i64* a, i64 i, i64 value) {
    asm volatile("st.relaxed.gpu.global.s64 [%0], %1;" ::"l"(a + i), "l"(value) : "memory");
}
DEVICE i64 load_acquire(const i64* a, i64 i) {
    i64 value;
    asm volatile("ld.acquire.gpu.global.s64 %0, [%1];" : "=l"(value) : "l"(a + i) : "memory");
    return value;
}
DEVICE void store_release(i64* a, i64 i, i64 value) {
    asm volatile("st.release.gpu.global.s64 [%0], %1;" ::"l"(a + i), "l"(value) : "memory");
}
// An addition with ordering: a thread that sees the sum also sees earlier writes of this thread.
DEVICE i64 add_acquire_release(i64* a, i64 i, i64 by) {
    i64 value;
    asm volatile("atom.add.acq_rel.gpu.global.u64 %0, [%1], %2;"
                 : "=l"(value)
                 : "l"(a + i), "l"(by)
                 : "memory");
    return value;
}

// --------------------------------------------------------------------------------------- clocks

DEVICE i64 nanoseconds() {
    i64 value;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(value));
    return value;
}
// Cycles of the multiprocessor: cheap to read, comparable only within a block.
DEVICE i64 ticks() {
    i64 value;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(value));
    return value;
}
DEVICE void pause(int nanoseconds) { __nanosleep(nanoseconds); }

#endif  // GD_HOST
