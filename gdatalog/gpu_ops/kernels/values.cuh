// Values inside loops: floats and their keys, arithmetic as in NumPy, dates. The GPU version of
// codegen/helpers/values.py, with the same names. These functions replace Python's operators:
//
//   negative(a)  shift_left(a, b)  shift_right(a, b)  magnitude(a)  least_of(a, b)
//   greatest_of(a, b), the last three of two i64 or of two doubles
//
// The caller tests whether a computation fails; functions here only avoid undefined behaviour. Ints
// are computed as u64, so that they wrap. Floats equal the host's to the last bit, except for exp,
// log and pow, if the compiler does not fuse operations: --fmad=false, on the host
// -ffp-contract=off. A device has C's mathematical functions; on the host, the header that comes
// before includes <cmath>.
#pragma once
#include "prelude.cuh"

constexpr i64 ALL_BUT_SIGN = 0x7FFFFFFFFFFFFFFFLL;
constexpr i64 LIMIT = 1000000000000000000LL;  // of decimals
constexpr i64 NANOSECONDS_A_DAY = 86400000000000LL;
constexpr u64 LONGEST_RANGE = (u64)1 << 50;  // practically endless

// ------------------------------------------------------------------------------ floats and keys

DEVICE double float_of_key(i64 key) { return double_of_bits(key ^ ((key >> 63) & ALL_BUT_SIGN)); }
DEVICE i64 key_of_float(double value) {
    const i64 bits = bits_of_double(value + 0.0);  // -0.0 + 0.0 is 0.0
    return bits ^ ((bits >> 63) & ALL_BUT_SIGN);
}

// ---------------------------------------------------------------------------------------- ints

DEVICE i64 plus(i64 a, i64 b) { return (i64)((u64)a + (u64)b); }
DEVICE i64 minus(i64 a, i64 b) { return (i64)((u64)a - (u64)b); }
DEVICE i64 times(i64 a, i64 b) { return (i64)((u64)a * (u64)b); }
DEVICE i64 negative(i64 a) { return minus(0, a); }
DEVICE i64 magnitude(i64 a) { return a < 0 ? negative(a) : a; }
DEVICE i64 least_of(i64 a, i64 b) { return b < a ? b : a; }
DEVICE i64 greatest_of(i64 a, i64 b) { return a < b ? b : a; }

// Whether a / b is a division by 0, or outside 64 bits.
DEVICE bool quotient_fails(i64 a, i64 b) { return b == 0 || (b == -1 && a == ~ALL_BUT_SIGN); }
// Truncates. Division by -1 wraps, instead of trapping.
DEVICE i64 divide(i64 a, i64 b) {
    if (b == -1) return negative(a);
    return b == 0 ? 0 : a / b;
}
// Has the sign of the dividend.
DEVICE i64 remainder(i64 a, i64 b) { return b == -1 || b == 0 ? 0 : a % b; }

// Whether a decimal a * b has more than 18 digits.
DEVICE bool product_fails(i64 a, i64 b) {
    if (a == 0 || b == 0) return false;
    if (!(-LIMIT < a && a < LIMIT && -LIMIT < b && b < LIMIT)) return true;
    return magnitude(a) > (LIMIT - 1) / magnitude(b);
}
// a / tens, where tens > 0.
DEVICE i64 floored(i64 a, i64 tens) { return a / tens - (a % tens < 0 ? 1 : 0); }
// a / tens, where tens > 0; halves away from zero.
DEVICE i64 rounded(i64 a, i64 tens) {
    const i64 size = (magnitude(a) + tens / 2) / tens;
    return a < 0 ? -size : size;
}

// Whether a ^ b is outside 64 bits, or a negative power of 0.
DEVICE bool power_fails(i64 a, i64 b) {
    if (b < 0 || (-1 <= a && a <= 1)) return b < 0 && a == 0;
    const u64 size = (u64)magnitude(a);
    const u64 most = (((u64)1 << 63) - (a < 0 && b & 1 ? 0 : 1)) / size;
    u64 result = 1;
    i64 rest = b;
    for (; rest > 0 && result <= most; rest--) result *= size;  // at most 63 times
    return rest > 0;
}
// Wraps. A negative power is 0, except a power of 1 or -1.
DEVICE i64 power(i64 a, i64 b) {
    if (b < 0) {
        if (a == 1) return 1;
        if (a == -1) return b & 1 ? -1 : 1;
        return 0;
    }
    u64 result = 1, base = (u64)a;
    for (u64 rest = (u64)b; rest > 0; rest >>= 1) {
        if (rest & 1) result *= base;
        base *= base;
    }
    return (i64)result;
}

DEVICE i64 shift_left(i64 a, i64 b) { return (i64)((u64)a << (b & 63)); }
DEVICE i64 shift_right(i64 a, i64 b) { return a >> (b & 63); }
DEVICE i64 shift_right_unsigned(i64 a, i64 b) { return (i64)((u64)a >> (b & 63)); }

// -------------------------------------------------------------------------------------- floats

// A float as an int; 0 if it is out of range.
DEVICE i64 truncate(double value) {
    const bool fits = -9223372036854775808.0 <= value && value < 9223372036854775808.0;
    return fits ? (i64)value : 0;
}
DEVICE double floor_of(double value) { return floor(value); }
// To a whole number, halves away from zero.
DEVICE double round_of(double value) {
    const double size = fabs(value), down = floor(size);
    const double up = size - down >= 0.5 ? down + 1.0 : down;
    return value < 0.0 ? -up : up;
}
// To a number of digits; what is too large for them stays.
DEVICE double round_to(double value, double scale) {
    const double scaled = value * scale;
    return fabs(scaled) < 9007199254740992.0 ? round_of(scaled) / scale : value;
}
DEVICE double ceil_of(double value) { return ceil(value); }
DEVICE double root_of(double value) { return sqrt(value); }
DEVICE double exp_of(double value) { return exp(value); }
DEVICE double log_of(double value) { return log(value); }
DEVICE double real_power(double a, double b) { return pow(a, b); }
DEVICE double real_remainder(double a, double b) { return fmod(a, b); }
DEVICE double magnitude(double a) { return fabs(a); }
// NaN stays NaN, as in NumPy.
DEVICE double least_of(double a, double b) { return a <= b || a != a ? a : b; }
DEVICE double greatest_of(double a, double b) { return a >= b || a != a ? a : b; }

// --------------------------------------------------------------------------------------- dates

struct Civil {
    i64 year, month, day;
};


// Year, month and day of days since 1970.
//
// Years are counted from March, so that a leap day is the last of its year, in eras of 400 years,
// which have 146097 days; day 719468 of that count is 1970-01-01.
DEVICE Civil civil_of(i64 since) {
    const i64 days = since + 719468;
    const i64 era = floored(days, 146097);
    i64 day = days - era * 146097;
    const i64 year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
    day -= 365 * year + year / 4 - year / 100;
    const i64 month = (5 * day + 2) / 153;  // of a year that starts in March
    day -= (153 * month + 2) / 5;
    const bool next = month >= 10;
    const Civil civil = {year + 400 * era + (next ? 1 : 0), next ? month - 9 : month + 3, day + 1};
    return civil;
}
DEVICE i64 year_of(i64 time) { return civil_of(floored(time, NANOSECONDS_A_DAY)).year; }
DEVICE i64 month_of(i64 time) { return civil_of(floored(time, NANOSECONDS_A_DAY)).month; }
DEVICE i64 day_of(i64 time) { return civil_of(floored(time, NANOSECONDS_A_DAY)).day; }
DEVICE i64 year_of_date(i64 days) { return civil_of(days).year; }
DEVICE i64 month_of_date(i64 days) { return civil_of(days).month; }
DEVICE i64 day_of_date(i64 days) { return civil_of(days).day; }
DEVICE i64 floor_remainder(i64 a, i64 b) { return a % b + (a % b < 0 ? b : 0); }  // of b > 0
DEVICE i64 hour_of(i64 time) { return floor_remainder(time, NANOSECONDS_A_DAY) / 3600000000000; }
DEVICE i64 minute_of(i64 time) { return floor_remainder(time, 3600000000000) / 60000000000; }
DEVICE i64 second_of(i64 time) { return floor_remainder(time, 60000000000) / 1000000000; }
// From 0, Monday.
DEVICE i64 weekday_of_date(i64 days) { return floor_remainder(days + 3, 7); }
DEVICE i64 weekday_of(i64 time) { return weekday_of_date(floor_divide(time, NANOSECONDS_A_DAY)); }
// The last multiple of a size, counted from a start.
DEVICE i64 down_to(i64 value, i64 size, i64 start) {
    return (i64)((u64)value - (u64)floor_remainder((i64)((u64)value - (u64)start), size));
}
// The first day of the month, or of the period of so many months of a year.
DEVICE i64 first_day(i64 days, i64 months) {
    const Civil civil = civil_of(days);
    i64 first = days - civil.day + 1;
    for (i64 back = (civil.month - 1) % months; back > 0; --back) first -= civil_of(first - 1).day;
    return first;
}
DEVICE i64 first_day_of(i64 time, i64 months) {
    return (i64)((u64)first_day(floor_divide(time, NANOSECONDS_A_DAY), months)
                 * (u64)NANOSECONDS_A_DAY);
}
// A date and whole days of a duration; it fails outside the years 1 to 9999.
DEVICE i64 later_date(i64 days, i64 duration) {
    return (i64)((u64)days + (u64)floor_divide(duration, NANOSECONDS_A_DAY));
}
DEVICE bool later_date_fails(i64 days, i64 duration) {
    const i64 later = later_date(days, duration);
    return duration % NANOSECONDS_A_DAY != 0 || later < -719162 || later > 2932896;
}
// The duration between dates; it fails outside 64 bits.
DEVICE i64 between_dates(i64 a, i64 b) { return (i64)((u64)(a - b) * (u64)NANOSECONDS_A_DAY); }
DEVICE bool between_dates_fails(i64 a, i64 b) { return a - b > 106751 || b - a > 106751; }

// -------------------------------------------------------------------------------------- ranges

// The number of values of a range. Unsigned, because the distance of two ints may exceed an int.
DEVICE i64 length_of(i64 start, i64 stop, i64 step) {
    if (step == 0 || (step > 0 ? start >= stop : start <= stop)) return 0;
    const u64 distance = step > 0 ? (u64)stop - (u64)start : (u64)start - (u64)stop;
    const u64 more = (distance - 1) / (u64)magnitude(step);
    return (i64)(more < LONGEST_RANGE - 1 ? more : LONGEST_RANGE - 1) + 1;
}
