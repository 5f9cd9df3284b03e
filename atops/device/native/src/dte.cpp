// Take, turn and land: every operation is a fill of what src does not reach, and one strided copy.
#include "dte.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

namespace atops {

namespace {

constexpr int MOST = MOST_DIMENSIONS;

// A box of elements: where it begins, and by how many bytes the next element of each dimension lies behind.
struct View {
    uint8_t *base;
    int rank;
    int64_t extents[MOST], strides[MOST];
    uint32_t item;
};

View view_of(const Operand &operand) {
    View view{static_cast<uint8_t *>(operand.address), operand.rank, {}, {}, operand.item};
    int64_t stride = operand.item;
    for (int each = operand.rank - 1; each >= 0; --each) {
        view.extents[each] = operand.extents[each];
        view.strides[each] = stride;
        stride *= operand.extents[each];
    }
    return view;
}

int64_t count_of(const View &view) {
    int64_t count = 1;
    for (int each = 0; each < view.rank; ++each) count *= view.extents[each];
    return count;
}

// Narrow a view to at most `extents` elements from `offsets` on, as a slice of Python does.
View window(View view, const int64_t *offsets, const int64_t *extents) {
    for (int each = 0; each < view.rank; ++each) {
        int64_t from = offsets[each] < view.extents[each] ? offsets[each] : view.extents[each];
        int64_t left = view.extents[each] - from;
        view.base += from * view.strides[each];
        view.extents[each] = extents[each] < left ? extents[each] : left;
    }
    return view;
}

template <class Word>
void copy_row(uint8_t *to, int64_t to_stride, const uint8_t *from, int64_t from_stride, int64_t count) {
    for (int64_t each = 0; each < count; ++each) {
        Word word;
        memcpy(&word, from + each * from_stride, sizeof(Word));
        memcpy(to + each * to_stride, &word, sizeof(Word));
    }
}

void copy_items(uint8_t *to, int64_t to_stride, const uint8_t *from, int64_t from_stride, int64_t count, uint32_t item) {
    if (to_stride == item && from_stride == item) {
        memmove(to, from, static_cast<size_t>(count) * item);
        return;
    }
    switch (item) {
        case 1: return copy_row<uint8_t>(to, to_stride, from, from_stride, count);
        case 2: return copy_row<uint16_t>(to, to_stride, from, from_stride, count);
        case 4: return copy_row<uint32_t>(to, to_stride, from, from_stride, count);
        case 8: return copy_row<uint64_t>(to, to_stride, from, from_stride, count);
    }
    for (int64_t each = 0; each < count; ++each) memmove(to + each * to_stride, from + each * from_stride, item);
}

// Where set, boxes are told of and not moved.
__attribute__((tls_model("initial-exec"))) thread_local const Observer *observer = nullptr;

void tell_box(View box, uint32_t item, bool write) {
    int rank = 0;
    uint64_t run = item;
    int64_t extents[MOST], strides[MOST], place[MOST] = {};
    for (int each = box.rank - 1; each >= 0; --each) {  // the innermost first; what is repeated is told of once
        if (box.extents[each] == 0) return;
        if (box.extents[each] == 1 || box.strides[each] == 0) continue;
        if (rank == 0 && box.strides[each] == static_cast<int64_t>(run)) {
            run *= static_cast<uint64_t>(box.extents[each]);
            continue;
        }
        extents[rank] = box.extents[each];
        strides[rank++] = box.strides[each];
    }
    for (uint8_t *at = box.base;;) {
        observer->touch(observer->self, reinterpret_cast<uintptr_t>(at), run, write);
        int each = 0;
        for (; each < rank; ++each) {
            at += strides[each];
            if (++place[each] < extents[each]) break;
            at -= strides[each] * extents[each];
            place[each] = 0;
        }
        if (each == rank) return;
    }
}

// Copy elements of `item` bytes between two boxes of the same extents. Dimensions that follow each other in both are one.
void copy_box(View to, View from, uint32_t item) {
    if (observer) {
        for (int each = 0; each < to.rank; ++each) from.extents[each] = to.extents[each];
        tell_box(from, item, false);
        tell_box(to, item, true);
        return;
    }
    int rank = 0;
    int64_t extents[MOST], into[MOST], out[MOST];
    for (int each = 0; each < to.rank; ++each) {
        if (to.extents[each] == 0) return;
        if (to.extents[each] == 1) continue;
        if (rank && into[rank - 1] == to.strides[each] * to.extents[each] &&
            out[rank - 1] == from.strides[each] * to.extents[each]) {
            extents[rank - 1] *= to.extents[each];
            into[rank - 1] = to.strides[each];
            out[rank - 1] = from.strides[each];
            continue;
        }
        extents[rank] = to.extents[each];
        into[rank] = to.strides[each];
        out[rank] = from.strides[each];
        ++rank;
    }
    if (rank == 0) {
        memmove(to.base, from.base, item);
        return;
    }
    int64_t place[MOST] = {};
    uint8_t *target = to.base;
    const uint8_t *source = from.base;
    for (;;) {
        copy_items(target, into[rank - 1], source, out[rank - 1], extents[rank - 1], item);
        int each = rank - 2;
        for (; each >= 0; --each) {
            target += into[each];
            source += out[each];
            if (++place[each] < extents[each]) break;
            target -= into[each] * extents[each];
            source -= out[each] * extents[each];
            place[each] = 0;
        }
        if (each < 0) return;
    }
}

void fill_box(const View &to, uint64_t value) {
    if (observer) return tell_box(to, to.item, true);
    uint8_t bits[8];
    memcpy(bits, &value, 8);
    View from = to;
    from.base = bits;
    for (int each = 0; each < to.rank; ++each) from.strides[each] = 0;
    bool same = true;
    for (uint32_t each = 1; each < to.item && each < 8; ++each) same = same && bits[each] == bits[0];
    int64_t stride = to.item;
    bool dense = true;
    for (int each = to.rank - 1; each >= 0; --each) {
        dense = dense && (to.extents[each] == 1 || to.strides[each] == stride);
        stride *= to.extents[each];
    }
    if (same && dense)
        memset(to.base, bits[0], static_cast<size_t>(count_of(to)) * to.item);
    else
        copy_box(to, from, to.item);
}

bool fits(const View &view, const int64_t *extents) {
    for (int each = 0; each < view.rank; ++each)
        if (view.extents[each] != extents[each]) return false;
    return true;
}

// What is taken of src: its extents, before anything is turned.
void taken_extents(const Transfer &given, int64_t *extents) {
    int rank = given.src.rank;
    for (int each = 0; each < rank; ++each) {
        if (given.take == Take::all) {
            extents[each] = given.src.extents[each];
        } else if (given.has_shape) {
            extents[each] = given.slice_shape[each];
        } else if (given.turn != Turn::permute) {
            extents[each] = given.dst.extents[each];
        }
    }
    if (given.take == Take::window && !given.has_shape && given.turn == Turn::permute)
        for (int each = 0; each < rank; ++each) extents[given.layout[each]] = given.dst.extents[each];
}

void turned_extents(const Transfer &given, const int64_t *taken, int64_t *extents) {
    for (int each = 0; each < given.src.rank; ++each) {
        if (given.turn == Turn::permute)
            extents[each] = taken[given.layout[each]];
        else if (given.turn == Turn::stride)
            extents[each] = (taken[each] + given.layout[each] - 1) / given.layout[each];
        else
            extents[each] = taken[each];
    }
}

View turned(const Transfer &given, View view) {
    View made = view;
    int last = view.rank - 1;
    switch (given.turn) {
        case Turn::permute:
            for (int each = 0; each < view.rank; ++each) {
                made.extents[each] = view.extents[given.layout[each]];
                made.strides[each] = view.strides[given.layout[each]];
            }
            break;
        case Turn::mirror_x:
        case Turn::mirror_y: {
            int axis = given.turn == Turn::mirror_x ? last : last - 1;
            if (made.extents[axis]) made.base += (made.extents[axis] - 1) * made.strides[axis];
            made.strides[axis] = -made.strides[axis];
            break;
        }
        case Turn::stride:
            for (int each = 0; each < view.rank; ++each) {
                made.extents[each] = (view.extents[each] + given.layout[each] - 1) / given.layout[each];
                made.strides[each] = view.strides[each] * given.layout[each];
            }
            break;
        default:
            break;
    }
    return made;
}

// ---- checks

struct Report {
    char *text;
    size_t room;

    bool operator()(const char *format, ...) const __attribute__((format(printf, 2, 3))) {
        va_list list;
        va_start(list, format);
        vsnprintf(text, room, format, list);
        va_end(list);
        return false;
    }
};

struct Shown {
    char text[160];

    Shown(const int64_t *numbers, int count) {
        size_t used = 0;
        text[used++] = '(';
        for (int each = 0; each < count && used < sizeof text - 24; ++each)
            used += static_cast<size_t>(snprintf(text + used, sizeof text - used, each ? ", %lld" : "%lld",
                                                 static_cast<long long>(numbers[each])));
        snprintf(text + used, sizeof text - used, count == 1 ? ",)" : ")");
    }
};

enum { SRC_OFFSETS, SLICE_SHAPE, DST_OFFSETS, LAYOUT, LOW, HIGH, MID };

bool numbers(const Transfer &given, const Report &report, int which, const int64_t *values, const char *name, int rank,
             int64_t least = 0) {
    if (given.numbers_given[which] != rank)
        return report("%s: %s has %d numbers; expected %d, one for each dimension", given.name, name,
                      given.numbers_given[which], rank);
    for (int each = 0; each < rank; ++each)
        if (values[each] < least)
            return report("%s: %s is %s; expected numbers of at least %lld", given.name, name, Shown(values, rank).text,
                          static_cast<long long>(least));
    return true;
}

bool check_stages(const Transfer &given, const Report &report) {
    const Operand &dst = given.dst, &src = given.src;
    bool converts = given.turn == Turn::expand || given.turn == Turn::shrink;
    if (!converts && dst.item != src.item)
        return report("%s: dst has elements of %u bytes and src of %u; expected the same", given.name, dst.item,
                      src.item);
    if (given.land != Land::repeated && dst.rank != src.rank)
        return report("%s: dst has %d dimensions and src %d; expected as many", given.name, dst.rank, src.rank);
    int rank = src.rank;
    if (given.turn == Turn::permute) {
        if (!numbers(given, report, LAYOUT, given.layout, "layout", rank)) return false;
        unsigned seen = 0;
        for (int each = 0; each < rank; ++each)
            if (given.layout[each] < rank) seen |= 1u << given.layout[each];
        if (seen != (1u << rank) - 1)
            return report("%s: layout is %s; expected each of the dimensions 0 to %d once", given.name,
                          Shown(given.layout, rank).text, rank - 1);
    }
    if (given.turn == Turn::stride && !numbers(given, report, LAYOUT, given.layout, "dim_stride", rank, 1)) return false;
    if ((given.turn == Turn::mirror_x && rank < 1) || (given.turn == Turn::mirror_y && rank < 2))
        return report("%s: src has %d dimensions; expected at least %d", given.name, rank,
                      given.turn == Turn::mirror_x ? 1 : 2);
    if (converts) {
        if (given.ratio < 0 || given.ratio > 1)
            return report("%s: ratio is %d; expected 0 or 1", given.name, given.ratio);
        int factor = 2 << given.ratio;
        const Operand &large = given.turn == Turn::expand ? dst : src, &small = given.turn == Turn::expand ? src : dst;
        if (large.item != static_cast<uint32_t>(factor) * small.item)
            return report("%s: %s has elements of %u bytes and %s of %u; expected %d times as many with ratio %d",
                          given.name, given.turn == Turn::expand ? "dst" : "src", large.item,
                          given.turn == Turn::expand ? "src" : "dst", small.item, factor, given.ratio);
        if (given.phase < 0 || given.phase >= factor)
            return report("%s: phase is %d; expected 0 to %d with ratio %d", given.name, given.phase, factor - 1,
                          given.ratio);
    }
    if (given.take == Take::window) {
        if (!numbers(given, report, SRC_OFFSETS, given.src_offsets, "offsets of src", rank)) return false;
        if (given.has_shape && !numbers(given, report, SLICE_SHAPE, given.slice_shape, "slice_shape", rank)) return false;
    }
    int64_t taken[MOST], extents[MOST];
    taken_extents(given, taken);
    turned_extents(given, taken, extents);
    switch (given.land) {
        case Land::whole:
            for (int each = 0; each < rank; ++each)
                if (dst.extents[each] != extents[each])
                    return report("%s: dst has shape %s; expected %s", given.name, Shown(dst.extents, rank).text,
                                  Shown(extents, rank).text);
            break;
        case Land::window:
            if (!numbers(given, report, DST_OFFSETS, given.dst_offsets, "offsets of dst", rank)) return false;
            for (int each = 0; each < rank; ++each)
                if (given.dst_offsets[each] + extents[each] > dst.extents[each])
                    return report("%s: dimension %d of the window ends at %lld; dst has shape %s", given.name, each,
                                  static_cast<long long>(given.dst_offsets[each] + extents[each]),
                                  Shown(dst.extents, rank).text);
            break;
        case Land::padded:
            if (!numbers(given, report, LOW, given.low, "pad_low", rank) ||
                !numbers(given, report, HIGH, given.high, "pad_high", rank) ||
                !numbers(given, report, MID, given.mid, "pad_mid", rank))
                return false;
            for (int each = 0; each < rank; ++each) {
                int64_t gaps = extents[each] > 0 ? extents[each] - 1 : 0;
                int64_t padded = given.low[each] + extents[each] + gaps * given.mid[each] + given.high[each];
                if (dst.extents[each] != padded)
                    return report("%s: dimension %d of dst has extent %lld; expected %lld: pad_low + n + (n - 1) * "
                                  "pad_mid + pad_high", given.name, each, static_cast<long long>(dst.extents[each]),
                                  static_cast<long long>(padded));
            }
            break;
        case Land::repeated: {
            int added = dst.rank - rank;
            if (added < 0)
                return report("%s: dst has %d dimensions and src %d; expected no fewer", given.name, dst.rank, rank);
            for (int each = 0; each < rank; ++each)
                if (extents[each] != 1 && extents[each] != dst.extents[added + each])
                    return report("%s: dimension %d of what is repeated has extent %lld; expected 1 or %lld", given.name,
                                  each, static_cast<long long>(extents[each]),
                                  static_cast<long long>(dst.extents[added + each]));
            break;
        }
        default:
            break;
    }
    return true;
}

bool overlap(const Operand &dst, const Operand &src) {
    const uint8_t *one = static_cast<const uint8_t *>(dst.address), *other = static_cast<const uint8_t *>(src.address);
    return one < other + operand_bytes(src) && other < one + operand_bytes(dst);
}

// ---- moves

// The part `phase` of elements that are larger.
View part(View view, int phase, uint32_t item) {
    view.base += static_cast<int64_t>(phase) * item;
    view.item = item;
    return view;
}

void put(const Transfer &given, View region, View source, const int64_t *extents) {
    if (given.turn == Turn::replace) {
        fill_box(region, given.value);
        return;
    }
    bool beyond = false;
    for (int each = 0; each < source.rank; ++each) beyond = beyond || source.extents[each] != extents[each];
    if (given.turn == Turn::expand) {
        fill_box(region, 0);
        beyond = false;
    }
    if (beyond) fill_box(region, given.value);
    for (int each = 0; each < region.rank; ++each) region.extents[each] = source.extents[each];
    if (given.turn == Turn::expand)
        copy_box(part(region, given.phase, source.item), source, source.item);
    else if (given.turn == Turn::shrink)
        copy_box(region, part(source, given.phase, region.item), region.item);
    else
        copy_box(region, source, region.item);
}

void put_padded(const Transfer &given, View dst, View source, const int64_t *extents) {
    bool plain = fits(source, extents);
    for (int each = 0; each < dst.rank; ++each) plain = plain && !given.low[each] && !given.high[each] && !given.mid[each];
    if (!plain) fill_box(dst, given.value);
    for (int each = 0; each < dst.rank; ++each) {
        dst.base += given.low[each] * dst.strides[each];
        dst.strides[each] *= given.mid[each] + 1;
        dst.extents[each] = source.extents[each];
    }
    copy_box(dst, source, source.item);
}

void put_repeated(View dst, View source, const int64_t *extents) {
    int added = dst.rank - source.rank;
    View spread = dst;
    spread.base = source.base;
    bool beyond = false;
    for (int each = 0; each < dst.rank; ++each) {
        int own = each - added;
        spread.strides[each] = own < 0 || extents[own] == 1 ? 0 : source.strides[own];
        if (own >= 0 && source.extents[own] != extents[own]) {
            beyond = true;
            spread.extents[each] = extents[own] == 1 && source.extents[own] == 0 ? 0 : source.extents[own];
        }
    }
    if (beyond) fill_box(dst, 0);
    View landing = dst;
    for (int each = 0; each < dst.rank; ++each) landing.extents[each] = spread.extents[each];
    copy_box(landing, spread, dst.item);
}

}  // namespace

uint64_t operand_bytes(const Operand &operand) {
    if (!operand.address && !operand.rank) return 0;
    uint64_t bytes = operand.item;
    for (int each = 0; each < operand.rank; ++each) bytes *= static_cast<uint64_t>(operand.extents[each]);
    return bytes;
}

bool check_transfer(const Transfer &given, char *text, size_t room) {
    Report report{text, room};
    if (given.land == Land::fill) return true;
    if (given.land == Land::bytes) {
        uint64_t size = operand_bytes(given.src), most = operand_bytes(given.dst);
        if (size > most)
            return report("%s: dst has %llu bytes and src has %llu; expected room for all of src", given.name,
                          static_cast<unsigned long long>(most), static_cast<unsigned long long>(size));
        return true;
    }
    if (!check_stages(given, report)) return false;
    bool itself = given.dst.address == given.src.address && given.turn == Turn::plain;
    if (given.turn != Turn::replace && !itself && overlap(given.dst, given.src))
        return report("%s: dst and src share bytes; expected memory that is apart", given.name);
    return true;
}

uint64_t apply_transfer(const Transfer &given) {
    if (given.land == Land::fill) {
        fill_box(view_of(given.dst), given.value);
        return operand_bytes(given.dst);
    }
    uint64_t bytes = operand_bytes(given.src);
    if (given.land == Land::bytes) {
        if (observer) {
            observer->touch(observer->self, reinterpret_cast<uintptr_t>(given.src.address), bytes, false);
            observer->touch(observer->self, reinterpret_cast<uintptr_t>(given.dst.address), bytes, true);
        } else {
            memmove(static_cast<uint8_t *>(given.dst.address), static_cast<const uint8_t *>(given.src.address), bytes);
        }
        return 2 * bytes;
    }
    int64_t taken[MOST], extents[MOST];
    taken_extents(given, taken);
    turned_extents(given, taken, extents);
    View source = view_of(given.src), dst = view_of(given.dst);
    if (given.take == Take::window) source = window(source, given.src_offsets, taken);
    source = turned(given, source);
    switch (given.land) {
        case Land::window:
            put(given, window(dst, given.dst_offsets, extents), source, extents);
            break;
        case Land::padded:
            put_padded(given, dst, source, extents);
            break;
        case Land::repeated:
            put_repeated(dst, source, extents);
            break;
        default:
            put(given, dst, source, extents);
            break;
    }
    return bytes + operand_bytes(given.dst);
}

void observe_transfer(const Transfer &given, const Observer &told) {
    observer = &told;
    apply_transfer(given);
    observer = nullptr;
}

}  // namespace atops
