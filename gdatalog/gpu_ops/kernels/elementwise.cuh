// What a device's arrays do besides joins: arithmetic, casts, fills, gathers, sums, searches.
//
// Operation and types are arguments: they are the same for all threads, so the branches on them cost
// little beside the accesses to memory, and one small source serves all. A value is 64 bits: an int,
// or the bits of a double.
#include "search.cuh"

// As in elementwise.py.
enum Op {
    COPY, RANGE, GATHER, SCATTER, TALLY, SELECT,
    ADD, SUBTRACT, MULTIPLY, FLOOR_DIVIDE, REMAINDER, AND, OR, XOR, INVERT, NOT, LEFT_SHIFT,
    RIGHT_SHIFT, EQUAL, NOT_EQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL, MINIMUM, MAXIMUM,
    NEGATIVE, ABSOLUTE, DIVIDE, FLOOR, CEIL, TRUNC, SQRT, ISNAN,
};
enum Kind { BOOL, I8, U8, I16, U16, I32, U32, I64, U64, F32, F64 };
enum Mode { EACH_ENTRY, ONE_ENTRY, NUMBER };  // an operand: an array, an array of one, an argument

// The fields of `what`, from the lowest bits on: operation, whether values are doubles or unsigned,
// the kind of the output, then kind and mode of each operand.
DEVICE int field(i64 what, int shift, int bits) { return (int)(what >> shift) & ((1 << bits) - 1); }

APART i64 load(Bytes from, int kind, i64 at, bool real) {
    i64 value;
    switch (kind) {
        case BOOL:
        case U8: value = array_of<u8>(from)[at]; break;
        case I8: value = array_of<signed char>(from)[at]; break;
        case I16: value = array_of<short>(from)[at]; break;
        case U16: value = array_of<unsigned short>(from)[at]; break;
        case I32: value = array_of<i32>(from)[at]; break;
        case U32: value = array_of<u32>(from)[at]; break;
        case F32: return bits_of_double(array_of<float>(from)[at]);
        case F64: return array_of<i64>(from)[at];
        default: value = array_of<i64>(from)[at];
    }
    if (!real) return value;
    return bits_of_double(kind == U64 ? (double)(u64)value : (double)value);
}

APART void store(Bytes to, int kind, i64 at, i64 value, bool real) {
    if (real && kind < F32) {
        const double given = double_of_bits(value);
        if (kind == BOOL)
            value = given != 0.0;
        else
            value = kind == U64 ? (i64)(u64)given : (i64)given;
    } else if (!real && kind >= F32) {
        value = bits_of_double((double)value);
    }
    switch (kind) {
        case BOOL: array_of<u8>(to)[at] = value != 0; break;
        case I8:
        case U8: array_of<u8>(to)[at] = (u8)value; break;
        case I16:
        case U16: array_of<unsigned short>(to)[at] = (unsigned short)value; break;
        case I32:
        case U32: array_of<u32>(to)[at] = (u32)value; break;
        case F32: array_of<float>(to)[at] = (float)double_of_bits(value); break;
        default: array_of<i64>(to)[at] = value;
    }
}

DEVICE bool less(i64 a, i64 b, bool real, bool bare) {
    if (real) return double_of_bits(a) < double_of_bits(b);
    return bare ? (u64)a < (u64)b : a < b;
}

APART i64 divided(i64 a, i64 b, bool bare) {
    if (b == 0) return 0;
    const bool low = !bare && a < 0, down = low != (!bare && b < 0);
    const u64 size = low ? 0 - (u64)a : (u64)a, by = down != low ? 0 - (u64)b : (u64)b;
    const u64 whole = size / by;
    return (i64)(down ? 0 - whole - (u64)(whole * by != size) : whole);
}

APART i64 of_doubles(int op, double a, double b) {
    switch (op) {
        case ADD: return bits_of_double(a + b);
        case SUBTRACT: return bits_of_double(a - b);
        case MULTIPLY: return bits_of_double(a * b);
        case DIVIDE: return bits_of_double(a / b);
        case EQUAL: return a == b;
        case NOT_EQUAL: return a != b;
        case LESS: return a < b;
        case LESS_EQUAL: return a <= b;
        case GREATER: return a > b;
        case GREATER_EQUAL: return a >= b;
        case MINIMUM: return bits_of_double(a != a || a < b ? a : b);
        case MAXIMUM: return bits_of_double(a != a || a > b ? a : b);
        case NEGATIVE: return bits_of_double(-a);
        case ABSOLUTE: return bits_of_double(fabs(a));
        case FLOOR: return bits_of_double(floor(a));
        case CEIL: return bits_of_double(ceil(a));
        case TRUNC: return bits_of_double(trunc(a));
        case SQRT: return bits_of_double(sqrt(a));
        case ISNAN: return a != a;
    }
    return bits_of_double(a);
}

APART i64 of_ints(int op, i64 a, i64 b, bool bare) {
    switch (op) {
        case ADD: return (i64)((u64)a + (u64)b);
        case SUBTRACT: return (i64)((u64)a - (u64)b);
        case MULTIPLY: return (i64)((u64)a * (u64)b);
        case FLOOR_DIVIDE: return divided(a, b, bare);
        case REMAINDER: return b == 0 ? 0 : (i64)((u64)a - (u64)divided(a, b, bare) * (u64)b);
        case AND: return a & b;
        case OR: return a | b;
        case XOR: return a ^ b;
        case INVERT: return ~a;
        case NOT: return a == 0;
        case LEFT_SHIFT: return (i64)((u64)a << b);
        case RIGHT_SHIFT: return bare ? (i64)((u64)a >> b) : a >> b;
        case EQUAL: return a == b;
        case NOT_EQUAL: return a != b;
        case LESS: return less(a, b, false, bare);
        case LESS_EQUAL: return !less(b, a, false, bare);
        case GREATER: return less(b, a, false, bare);
        case GREATER_EQUAL: return !less(a, b, false, bare);
        case MINIMUM: return less(a, b, false, bare) ? a : b;
        case MAXIMUM: return less(a, b, false, bare) ? b : a;
        case NEGATIVE: return (i64)(0 - (u64)a);
        case ABSOLUTE: return a < 0 && !bare ? (i64)(0 - (u64)a) : a;
    }
    return a;
}

// An operand's value for an entry: of an array, of an array of one, or the number.
DEVICE i64 operand(Bytes from, i64 number, int kind, int mode, i64 at, bool real) {
    if (mode == NUMBER) return number;
    return load(from, kind, mode == ONE_ENTRY ? 0 : at, real);
}

// out[i] = a[i] op b[i]. Of the others: RANGE is x + i * y; GATHER is a[b[i]], SCATTER is
// out[b[i]] = a[i], TALLY adds atomically there, each with `z` entries behind; SELECT is c[i] where
// a[i] is 0, else b[i]. COPY reads every y-th entry.
KERNEL(apply)(Bytes out, Bytes a, Bytes b, Bytes c, i64 what, i64 x, i64 y, i64 z, i64 size) {
    const int op = field(what, 0, 8), kind = field(what, 16, 8);
    const bool real = field(what, 8, 1), bare = field(what, 9, 1);
    const int kind_a = field(what, 24, 8), kind_b = field(what, 32, 8), kind_c = field(what, 40, 8);
    const int mode_a = field(what, 48, 2), mode_b = field(what, 50, 2), mode_c = field(what, 52, 2);
#pragma unroll 1
    for (i64 at = thread_of_grid(); at < size; at += threads_of_grid()) {
        i64 to = at, value;
        switch (op) {
            case COPY: value = operand(a, x, kind_a, mode_a, at * y, real); break;
            case RANGE: value = x + at * y; break;
            case GATHER: {
                const i64 place = operand(b, y, kind_b, mode_b, at, false);
                value = load(a, kind_a, place < 0 ? place + z : place, real);
                break;
            }
            case SCATTER:
            case TALLY:
                to = operand(b, y, kind_b, mode_b, at, false);
                if (to < 0) to += z;
                value = operand(a, x, kind_a, mode_a, at, real);
                break;
            case SELECT:
                value = operand(a, x, kind_a, mode_a, at, false) != 0
                            ? operand(b, y, kind_b, mode_b, at, real)
                            : operand(c, z, kind_c, mode_c, at, real);
                break;
            default: {
                const i64 left = operand(a, x, kind_a, mode_a, at, real);
                const i64 right = operand(b, y, kind_b, mode_b, at, real);
                value = real ? of_doubles(op, double_of_bits(left), double_of_bits(right))
                             : of_ints(op, left, right, bare);
            }
        }
        if (op == TALLY)
            atomic_add(array_of<i64>(out), to, value);
        else
            store(out, kind, to, value, real && (op < EQUAL || op > GREATER_EQUAL) && op != ISNAN);
    }
}

DEVICE i64 combined(int op, i64 a, i64 b, bool real, bool bare) {
    if (op != ADD) return less(a, b, real, bare) == (op == MINIMUM) ? a : b;
    if (!real) return (i64)((u64)a + (u64)b);
    return bits_of_double(double_of_bits(a) + double_of_bits(b));
}

// Each block's sum, least or greatest value; of one block, that of all. Always in the same order.
KERNEL(reduce)(Bytes out, Bytes from, i64 what, i64 size) {
    const int op = field(what, 0, 8), kind = field(what, 24, 8);
    const bool real = field(what, 8, 1), bare = field(what, 9, 1);
    SHARED(i64, all, THREADS);
    const int mine = thread_of_block();
    i64 first = thread_of_grid();
    bool some = first < size;
    i64 value = some ? load(from, kind, first, real) : 0;
#pragma unroll 1
    for (i64 at = first + threads_of_grid(); at < size; at += threads_of_grid())
        value = combined(op, value, load(from, kind, at, real), real, bare);
    all[mine] = value;
    block_sync();
    // Threads behind the end have nothing to add.
    const i64 start = (i64)block_of_grid() * THREADS;
    const int there = size - start < THREADS ? (int)(size - start) : THREADS;
#pragma unroll 1
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (mine < half && mine + half < there)
            all[mine] = combined(op, all[mine], all[mine + half], real, bare);
        block_sync();
    }
    if (mine == 0) array_of<i64>(out)[block_of_grid()] = all[0];
}

// An int of an array of 32 or 64 bits.
DEVICE i64 whole(Bytes from, bool wide, i64 at) {
    return wide ? array_of<i64>(from)[at] : (i64)array_of<i32>(from)[at];
}

// Where a key stands in [low, high): the first entry that is not less, or with `after` greater.
DEVICE i64 bound(Bytes values, bool wide, i64 low, i64 high, i64 key, bool after) {
#pragma unroll 1
    while (low < high) {
        const i64 middle = low + ((high - low) >> 1), here = whole(values, wide, middle);
        if (after ? here <= key : here < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// The first position in a sorted array whose entry is not less than each value, or greater than it.
KERNEL(search)(Bytes out, Bytes sorted, Bytes values, i64 what, i64 after_equal, i64 length,
               i64 size) {
    const int kind_a = field(what, 24, 8), kind_b = field(what, 32, 8);
    const bool real = field(what, 8, 1), bare = field(what, 9, 1);
    const bool ints = !real && (kind_a == I32 || kind_a == I64);
#pragma unroll 1
    for (i64 at = thread_of_grid(); at < size; at += threads_of_grid()) {
        const i64 value = load(values, kind_b, at, real);
        if (ints) {
            array_of<i64>(out)[at] = bound(sorted, kind_a == I64, 0, length, value, after_equal);
            continue;
        }
        i64 low = 0, high = length;
#pragma unroll 1
        while (low < high) {
            const i64 middle = low + ((high - low) >> 1), here = load(sorted, kind_a, middle, real);
            if (after_equal ? !less(value, here, real, bare) : less(here, value, real, bare))
                low = middle + 1;
            else
                high = middle;
        }
        array_of<i64>(out)[at] = low;
    }
}

// The indices of the entries that are not 0.
KERNEL(survivors)(Bytes mask, Bytes found, ARRAY(i64) state, i64 what, i64 size) {
    const int kind = field(what, 16, 8), kind_a = field(what, 24, 8);
    const i64 tiles = (size + TILE - 1) / TILE;
    for (i64 tile = next_tile(state); tile < tiles; tile = next_tile(state)) {
        u32 keep = 0;
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const i64 at = tile * TILE + place_in_tile(i);
            if (at < size && load(mask, kind_a, at, false) != 0) keep |= 1u << i;
        }
        const KeptOfTile kept_of_tile = publish_kept(keep, state, tile);
        i64 next = place_of_tile(state, tile, kept_of_tile.total, tiles) + kept_of_tile.before;
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const bool kept = keep >> i & 1u;
            const i64 to = take_place(next, kept);
            if (kept) store(found, kind, to, tile * TILE + place_in_tile(i), false);
        }
    }
}

// ----------------------------------------------------------------------------- lists of levels

enum Lists { OF_PARENTS = 1, DENSE = 2, FOUND = 4, AFTER = 8 };

// The position of each sought value in its parent's list, in a whole list, or in a dense index of
// all values from `least` on. FOUND: -1 if it is absent; else where it would stand.
KERNEL(look_up)(Bytes found, Bytes values, Bytes offsets, Bytes parents, Bytes sought, i64 what,
                i64 how, i64 least, i64 length, i64 size) {
    const bool wide = field(what, 24, 8) == I64, wide_offsets = field(what, 32, 8) == I64;
    const bool wide_parents = field(what, 40, 8) == I64, wide_sought = field(what, 48, 8) == I64;
#pragma unroll 1
    for (i64 at = thread_of_grid(); at < size; at += threads_of_grid()) {
        const i64 key = whole(sought, wide_sought, at);
        i64 low = 0, high = length, place;
        if (how & DENSE) {
            place = find_indexed(least, array_of<i32>(values), length, key);
        } else {
            if (how & OF_PARENTS) {
                const i64 parent = whole(parents, wide_parents, at);
                low = whole(offsets, wide_offsets, parent);
                high = whole(offsets, wide_offsets, parent + 1);
            }
            place = bound(values, wide, low, high, key, how & AFTER);
            if ((how & FOUND) && (place >= high || whole(values, wide, place) != key)) place = -1;
        }
        store(found, field(what, 16, 8), at, place, false);
    }
}

enum Cut { BEGIN = 1, BOUNDED = 2, UPPER = 4 };

// The start and length of each parent's list (BEGIN), or what a cut by bounds leaves of the lists.
// UPPER: the bound is the list's end; AFTER: an entry equal to the bound lies before it.
KERNEL(ranges)(Bytes values, Bytes offsets, Bytes parents, Bytes bounds, ARRAY(i64) starts,
               ARRAY(i64) lengths, i64 what, i64 how, i64 size) {
    const bool wide = field(what, 24, 8) == I64, wide_offsets = field(what, 32, 8) == I64;
    const bool wide_parents = field(what, 40, 8) == I64, wide_bounds = field(what, 48, 8) == I64;
#pragma unroll 1
    for (i64 at = thread_of_grid(); at < size; at += threads_of_grid()) {
        i64 low, high;
        if (how & BEGIN) {
            const i64 parent = whole(parents, wide_parents, at);
            low = whole(offsets, wide_offsets, parent);
            high = whole(offsets, wide_offsets, parent + 1);
        } else {
            low = starts[at];
            high = low + lengths[at];
        }
        if (how & BOUNDED) {
            const i64 key = whole(bounds, wide_bounds, at);
            const i64 edge = bound(values, wide, low, high, key, how & AFTER);
            if (how & UPPER)
                high = edge;
            else
                low = edge;
        }
        starts[at] = low;
        lengths[at] = high - low;
    }
}
