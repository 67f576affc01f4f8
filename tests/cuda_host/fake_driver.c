/* Stands in for the functions of CUDA's driver library that virtual memory calls: tells what it is
   given, in the C types of cuda.h. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct { int type, id; } Location;
typedef struct {
    int type, handles;
    Location location;
    void *win32;
    unsigned char flags[8];
} Properties;
typedef struct { Location location; int flags; } Access;

static void *current = (void *)0x66; /* another GPU's */
static uint64_t next = 5;
static char told[4096];
static int length = 0;

#define TELL(...) (length += snprintf(told + length, sizeof told - length, __VA_ARGS__))

const char *said(void) { return told; }
void again(void) { next = 7; } /* there is memory */
int cuCtxGetCurrent(void **found) { *found = current; return 0; }
int cuCtxSetCurrent(void *context) { current = context; return 0; }
int cuDevicePrimaryCtxRetain(void **found, int device) {
    *found = (void *)0x77;
    return device != 1;
}
int cuCtxSynchronize(void) { TELL("settle %p\n", current); return current ? 0 : 201; }
int cuDeviceGetAttribute(int *found, int attribute, int device) {
    *found = attribute == 134 ? -1 : 0;
    return device != 1;
}
int cuDeviceGetCount(int *found) { *found = 3; return 0; }
int cuDeviceCanAccessPeer(int *found, int device, int other) { /* 2 cannot */
    *found = device == 0;
    return device == other;
}
int cuMemGetAllocationGranularity(size_t *found, const Properties *asked, int option) {
    *found = asked->location.type == 1 ? 1 << 22 : 4096;
    return option || asked->type != 1 || asked->handles;
}
int cuMemAddressReserve(uint64_t *found, size_t size, size_t align, uint64_t at, uint64_t flags) {
    *found = (uint64_t)aligned_alloc(align, size);
    TELL("reserve %zu by %zu\n", size, align);
    return at || flags;
}
int cuMemAddressFree(uint64_t at, size_t size) {
    TELL("free %zu\n", size);
    free((void *)at);
    return 0;
}
int cuMemCreate(uint64_t *found, size_t size, const Properties *asked, uint64_t flags) {
    if (next == 9) return 2; /* out of memory */
    *found = next++;
    TELL("create %zu at %d %d\n", size, asked->location.type, asked->location.id);
    return asked->type != 1 || flags;
}
int cuMemRelease(uint64_t handle) { TELL("release %d\n", (int)handle); return 0; }
int cuMemMap(uint64_t at, size_t size, size_t offset, uint64_t handle, uint64_t flags) {
    TELL("map %zu of %d\n", size, (int)handle);
    return offset || flags || !at || handle == 99;
}
int cuMemSetAccess(uint64_t at, size_t size, const Access *asked, size_t count) {
    for (size_t i = 0; i < count; i++)
        TELL("access %zu for %d %d: %d\n", size, asked[i].location.type, asked[i].location.id,
             asked[i].flags);
    return !count || !at;
}
int cuMemUnmap(uint64_t at, size_t size) { TELL("unmap %zu\n", size); return !at; }
