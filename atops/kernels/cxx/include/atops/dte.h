// The DTE (TOPS C++, 8.7): contexts, mdspan, and the 22 operations with their asynchronous forms.
#pragma once

#include "language.h"

namespace tops {

using Space = atops::Space;
constexpr Space Global = Space::global, Shared = Space::shared, Local = Space::local, Private = Space::local;

// Numbers, one for each dimension: `{0, 4}`, an array, or several in a row.
struct numbers {
    int64_t values[atops::MOST_DIMENSIONS] = {};
    int count = 0;

    numbers() = default;
    template <class T, size_t N>
    numbers(const T (&given)[N]) {
        static_assert(N <= atops::MOST_DIMENSIONS, "the DTE has fewer dimensions");
        for (size_t each = 0; each < N; ++each) values[count++] = int64_t(given[each]);
    }
    template <class... T, class = std::enable_if_t<(std::is_convertible_v<T, int64_t> && ...)>>
    numbers(T... given) {
        static_assert(sizeof...(T) <= atops::MOST_DIMENSIONS, "the DTE has fewer dimensions");
        ((values[count++] = int64_t(given)), ...);
    }
};

// Memory with a shape: the innermost dimension last.
template <class T>
struct mdspan {
    T *address;
    Space space = Space::unknown;
    numbers extents;

    template <class... Extent, class = std::enable_if_t<(std::is_convertible_v<Extent, int64_t> && ...)>>
    mdspan(T *address, Extent... extents) : address(address), extents(extents...) {}
    template <class Extent, size_t N>
    mdspan(T *address, const Extent (&extents)[N]) : address(address), extents(extents) {}
    template <class... Extent, class = std::enable_if_t<(std::is_convertible_v<Extent, int64_t> && ...)>>
    mdspan(Space space, T *address, Extent... extents) : address(address), space(space), extents(extents...) {}
    template <class Extent, size_t N>
    mdspan(Space space, T *address, const Extent (&extents)[N]) : address(address), space(space), extents(extents) {}

    operator atops::Operand() const {
        atops::Operand made{};
        made.address = const_cast<std::remove_const_t<T> *>(address);
        made.rank = extents.count;
        made.item = sizeof(T);
        made.space = space;
        for (int each = 0; each < extents.count; ++each) made.extents[each] = extents.values[each];
        return made;
    }
    int64_t size() const {
        int64_t count = 1;
        for (int each = 0; each < extents.count; ++each) count *= extents.values[each];
        return count;
    }
};
template <class T, class... Extent>
mdspan(T *, Extent...) -> mdspan<T>;
template <class T, class Extent, size_t N>
mdspan(T *, const Extent (&)[N]) -> mdspan<T>;
template <class T, class... Extent>
mdspan(Space, T *, Extent...) -> mdspan<T>;
template <class T, class Extent, size_t N>
mdspan(Space, T *, const Extent (&)[N]) -> mdspan<T>;

}  // namespace tops

struct tops_dte_ctx_t {
    atops::Context own{};

    void init(ATOPS_SITE) { atops::runtime->context(&own, 0, {file, line}); }
    void destroy(ATOPS_SITE) { atops::runtime->context(&own, 1, {file, line}); }
};

inline void tops_init_dte(tops_dte_ctx_t &ctx, ATOPS_SITE) { ctx.init(file, line); }
inline void tops_init_dte(tops_dte_ctx_t *ctx, ATOPS_SITE) { ctx->init(file, line); }
inline void tops_destroy_dte(tops_dte_ctx_t &ctx, ATOPS_SITE) { ctx.destroy(file, line); }
inline void tops_destroy_dte(tops_dte_ctx_t *ctx, ATOPS_SITE) { ctx->destroy(file, line); }

namespace tops {

// A transfer in flight, or one that is over, or none.
struct event {
    atops::Event own{};
};

inline void wait(event given, ATOPS_SITE) { atops::runtime->wait(given.own, {file, line}); }

// Initialises a context, and gives it back at the end of the C++ block.
class dte_scope {
    tops_dte_ctx_t &context;

  public:
    explicit dte_scope(tops_dte_ctx_t &given, ATOPS_SITE) : context(given) { given.init(file, line); }
    ~dte_scope() { context.destroy(); }
    dte_scope(const dte_scope &) = delete;
};

}  // namespace tops

// ---- what each operation is made of: a description, which both of its forms carry out

namespace atops::describe {

using tops::mdspan;
using tops::numbers;

template <class T>
uint64_t bits(T value) {
    static_assert(sizeof(T) <= 8);
    uint64_t made = 0;
    memcpy(&made, &value, sizeof value);
    return made;
}

inline void take(int64_t *to, int32_t &count, const numbers &from) {
    for (int each = 0; each < from.count; ++each) to[each] = from.values[each];
    count = from.count;
}

struct Description : Transfer {
    Description(Take take, Turn turn, Land land, const Operand &to) {
        memset(static_cast<Transfer *>(this), 0, sizeof(Transfer));
        this->take = take;
        this->turn = turn;
        this->land = land;
        dst = to;
    }
    Description &from(const Operand &operand) { return src = operand, *this; }
    Description &window(const numbers &given) { return describe::take(src_offsets, numbers_given[0], given), *this; }
    Description &shape(const numbers &given) {
        has_shape = true;
        return describe::take(slice_shape, numbers_given[1], given), *this;
    }
    Description &at(const numbers &given) { return describe::take(dst_offsets, numbers_given[2], given), *this; }
    Description &order(const numbers &given) { return describe::take(layout, numbers_given[3], given), *this; }
    Description &around(const numbers &before, const numbers &behind, const numbers &between) {
        describe::take(low, numbers_given[4], before);
        describe::take(high, numbers_given[5], behind);
        return describe::take(mid, numbers_given[6], between), *this;
    }
    Description &parts(int which, int how_many) { return phase = which, ratio = how_many, *this; }
    template <class T>
    Description &fill(T given) {
        return value = bits(given), *this;
    }
};

template <class D, class S>
inline Transfer memcpy(const mdspan<D> &dst, const mdspan<S> &src) {
    return Description(Take::all, Turn::plain, Land::bytes, dst).from(src);
}
template <class D, class V>
inline Transfer memset(const mdspan<D> &dst, V value) {
    return Description(Take::none, Turn::plain, Land::fill, dst).fill(D(value));
}
template <class D, class S>
inline Transfer slice(const mdspan<D> &dst, const mdspan<S> &src, const numbers &offset, std::remove_const_t<D> value)
    {
    return Description(Take::window, Turn::plain, Land::whole, dst).from(src).window(offset).fill(value);
}
template <class D, class S>
inline Transfer deslice(const mdspan<D> &dst, const mdspan<S> &src, const numbers &offset) {
    return Description(Take::all, Turn::plain, Land::window, dst).from(src).at(offset);
}
template <class D, class S>
inline Transfer transpose(const mdspan<D> &dst, const mdspan<S> &src, const numbers &layout) {
    return Description(Take::all, Turn::permute, Land::whole, dst).from(src).order(layout);
}
template <class D, class S>
inline Transfer slice_transpose(const mdspan<D> &dst, const mdspan<S> &src, const numbers &offset, const numbers
    &layout, std::remove_const_t<D> value) {
    return Description(Take::window, Turn::permute, Land::whole,
        dst).from(src).window(offset).order(layout).fill(value);
}
template <class D, class S>
inline Transfer transpose_deslice(const mdspan<D> &dst, const mdspan<S> &src, const numbers &offset, const numbers
    &layout) {
    return Description(Take::all, Turn::permute, Land::window, dst).from(src).at(offset).order(layout);
}
template <class D, class S>
inline Transfer pad(const mdspan<D> &dst, const mdspan<S> &src, const numbers &pad_low, const numbers &pad_high, const
    numbers &pad_mid, std::remove_const_t<D> pad_value) {
    return Description(Take::all, Turn::plain, Land::padded, dst).from(src).around(pad_low, pad_high,
        pad_mid).fill(pad_value);
}
template <class D, class S>
inline Transfer mirror_tb(const mdspan<D> &dst, const mdspan<S> &src) {
    return Description(Take::all, Turn::mirror_x, Land::whole, dst).from(src);
}
template <class D, class S>
inline Transfer mirror_lr(const mdspan<D> &dst, const mdspan<S> &src) {
    return Description(Take::all, Turn::mirror_y, Land::whole, dst).from(src);
}
template <class D, class S>
inline Transfer broadcast(const mdspan<D> &dst, const mdspan<S> &src) {
    return Description(Take::all, Turn::plain, Land::repeated, dst).from(src);
}
template <class D, class S>
inline Transfer slice_pad(const mdspan<D> &dst, const mdspan<S> &src, const numbers &src_offsets, const numbers
    &slice_shape, const numbers &pad_low, const numbers &pad_high, const numbers &pad_mid, std::remove_const_t<D>
    pad_value) {
    return Description(Take::window, Turn::plain, Land::padded,
        dst).from(src).window(src_offsets).shape(slice_shape).around(pad_low, pad_high, pad_mid).fill(pad_value);
}
template <class D, class S>
inline Transfer slice_deslice(const mdspan<D> &dst, const mdspan<S> &src, const numbers &src_offsets, const numbers
    &slice_shape, const numbers &dst_offsets) {
    return Description(Take::window, Turn::plain, Land::window,
        dst).from(src).window(src_offsets).shape(slice_shape).at(dst_offsets);
}
template <class D, class S>
inline Transfer slice_broadcast(const mdspan<D> &dst, const mdspan<S> &src, const numbers &src_offsets, const numbers
    &slice_shape) {
    return Description(Take::window, Turn::plain, Land::repeated,
        dst).from(src).window(src_offsets).shape(slice_shape);
}
template <class D, class S>
inline Transfer slice_expand(const mdspan<D> &dst, const mdspan<S> &src, const numbers &src_offsets, const numbers
    &slice_shape, int phase, int ratio) {
    return Description(Take::window, Turn::expand, Land::whole,
        dst).from(src).window(src_offsets).shape(slice_shape).parts(phase, ratio);
}
template <class D, class S>
inline Transfer shrink_deslice(const mdspan<D> &dst, const mdspan<S> &src, int phase, int ratio, const numbers
    &dst_offsets) {
    return Description(Take::all, Turn::shrink, Land::window, dst).from(src).parts(phase, ratio).at(dst_offsets);
}
template <class D, class S, class V>
inline Transfer memset_deslice(const mdspan<D> &dst, const mdspan<S> &src, const numbers &dst_offsets, V value) {
    return Description(Take::all, Turn::replace, Land::window, dst).from(src).at(dst_offsets).fill(D(value));
}
template <class D, class S>
inline Transfer mirror_tb_pad(const mdspan<D> &dst, const mdspan<S> &src, const numbers &pad_low, const numbers
    &pad_high, const numbers &pad_mid, std::remove_const_t<D> value) {
    return Description(Take::all, Turn::mirror_x, Land::padded, dst).from(src).around(pad_low, pad_high,
        pad_mid).fill(value);
}
template <class D, class S>
inline Transfer mirror_lr_pad(const mdspan<D> &dst, const mdspan<S> &src, const numbers &pad_low, const numbers
    &pad_high, const numbers &pad_mid, std::remove_const_t<D> value) {
    return Description(Take::all, Turn::mirror_y, Land::padded, dst).from(src).around(pad_low, pad_high,
        pad_mid).fill(value);
}
template <class D, class S>
inline Transfer mirror_tb_deslice(const mdspan<D> &dst, const mdspan<S> &src, const numbers &dst_offsets) {
    return Description(Take::all, Turn::mirror_x, Land::window, dst).from(src).at(dst_offsets);
}
template <class D, class S>
inline Transfer mirror_lr_deslice(const mdspan<D> &dst, const mdspan<S> &src, const numbers &dst_offsets) {
    return Description(Take::all, Turn::mirror_y, Land::window, dst).from(src).at(dst_offsets);
}
template <class D, class S>
inline Transfer sub_sample(const mdspan<D> &dst, const mdspan<S> &src, const numbers &dim_stride) {
    return Description(Take::all, Turn::stride, Land::whole, dst).from(src).order(dim_stride);
}

}  // namespace atops::describe

namespace tops {

// From a description to a transfer that is done, to one that is in flight, and to one that waits to be triggered.
#define ATOPS_NOW(text, since, description) \
    atops::Transfer op = description; \
    op.name = text, op.gcu_arch = since; \
    atops::runtime->transfer(&ctx.own, &op, {file, line})
#define ATOPS_LATER(text, since, description) \
    atops::Transfer op = description; \
    op.name = text, op.gcu_arch = since; \
    event made; \
    made.own = atops::runtime->issue(&ctx.own, &op, {file, line}); \
    return made

template <class D, class S>
inline void memcpy(tops_dte_ctx_t &ctx, const mdspan<D> &dst, const mdspan<S> &src, ATOPS_SITE) {
    ATOPS_NOW("memcpy", 210, (atops::describe::memcpy<D>(dst, src)));
}
template <class D, class S>
inline event memcpy_async(tops_dte_ctx_t &ctx, const mdspan<D> &dst, const mdspan<S> &src, ATOPS_SITE) {
    ATOPS_LATER("memcpy_async", 210, (atops::describe::memcpy<D>(dst, src)));
}
template <class D, class V>
inline void memset(tops_dte_ctx_t &ctx, const mdspan<D> &dst, V value, ATOPS_SITE) {
    ATOPS_NOW("memset", 210, (atops::describe::memset<D>(dst, value)));
}
template <class D, class V>
inline event memset_async(tops_dte_ctx_t &ctx, const mdspan<D> &dst, V value, ATOPS_SITE) {
    ATOPS_LATER("memset_async", 210, (atops::describe::memset<D>(dst, value)));
}
template <class D, class S>
inline void slice(tops_dte_ctx_t &ctx, const mdspan<D> &dst, const mdspan<S> &src, const numbers &offset,
    std::remove_const_t<D> value = {}, ATOPS_SITE) {
    ATOPS_NOW("slice", 210, (atops::describe::slice<D>(dst, src, offset, value)));
}
template <class D, class S>
inline event slice_async(tops_dte_ctx_t &ctx, const mdspan<D> &dst, const mdspan<S> &src, const numbers &offset,
    std::remove_const_t<D> value = {}, ATOPS_SITE) {
    ATOPS_LATER("slice_async", 210, (atops::describe::slice<D>(dst, src, offset, value)));
}
template <class D, class S>
inline void deslice(tops_dte_ctx_t &ctx, const mdspan<D> &dst, const mdspan<S> &src, const numbers &offset,
    ATOPS_SITE) {
    ATOPS_NOW("deslice", 210, (atops::describe::deslice<D>(dst, src, offset)));
}
template <class D, class S>
inline event deslice_async(tops_dte_ctx_t &ctx, const mdspan<D> &dst, const mdspan<S> &src, const numbers &offset,
    ATOPS_SITE) {
    ATOPS_LATER("deslice_async", 210, (atops::describe::deslice<D>(dst, src, offset)));
}
template <class D, class S>
inline void transpose(tops_dte_ctx_t &ctx, const mdspan<D> &dst, const mdspan<S> &src, const numbers &layout,
    ATOPS_SITE) {
    ATOPS_NOW("transpose", 210, (atops::describe::transpose<D>(dst, src, layout)));
}
template <class D, class S>
inline event transpose_async(tops_dte_ctx_t &ctx, const mdspan<D> &dst, const mdspan<S> &src, const numbers &layout,
    ATOPS_SITE) {
    ATOPS_LATER("transpose_async", 210, (atops::describe::transpose<D>(dst, src, layout)));
}
template <class D, class S>
inline void slice_transpose(tops_dte_ctx_t &ctx, const mdspan<D> &dst, const mdspan<S> &src, const numbers &offset,
    const numbers &layout, std::remove_const_t<D> value = {}, ATOPS_SITE) {
    ATOPS_NOW("slice_transpose", 210, (atops::describe::slice_transpose<D>(dst, src, offset, layout, value)));
}
template <class D, class S>
inline event slice_transpose_async(tops_dte_ctx_t &ctx, const mdspan<D> &dst, const mdspan<S> &src, const numbers
    &offset, const numbers &layout, std::remove_const_t<D> value = {}, ATOPS_SITE) {
    ATOPS_LATER("slice_transpose_async", 210, (atops::describe::slice_transpose<D>(dst, src, offset, layout, value)));
}
template <class D, class S>
inline void transpose_deslice(tops_dte_ctx_t &ctx, const mdspan<D> &dst, const mdspan<S> &src, const numbers &offset,
    const numbers &layout, ATOPS_SITE) {
    ATOPS_NOW("transpose_deslice", 210, (atops::describe::transpose_deslice<D>(dst, src, offset, layout)));
}
template <class D, class S>
inline event transpose_deslice_async(tops_dte_ctx_t &ctx, const mdspan<D> &dst, const mdspan<S> &src, const numbers
    &offset, const numbers &layout, ATOPS_SITE) {
    ATOPS_LATER("transpose_deslice_async", 210, (atops::describe::transpose_deslice<D>(dst, src, offset, layout)));
}
template <class D, class S>
inline void pad(tops_dte_ctx_t &ctx, const mdspan<D> &dst, const mdspan<S> &src, const numbers &pad_low, const numbers
    &pad_high, const numbers &pad_mid, std::remove_const_t<D> pad_value = {}, ATOPS_SITE) {
    ATOPS_NOW("pad", 210, (atops::describe::pad<D>(dst, src, pad_low, pad_high, pad_mid, pad_value)));
}
template <class D, class S>
inline event pad_async(tops_dte_ctx_t &ctx, const mdspan<D> &dst, const mdspan<S> &src, const numbers &pad_low, const
    numbers &pad_high, const numbers &pad_mid, std::remove_const_t<D> pad_value = {}, ATOPS_SITE) {
    ATOPS_LATER("pad_async", 210, (atops::describe::pad<D>(dst, src, pad_low, pad_high, pad_mid, pad_value)));
}
template <class D, class S>
inline void mirror_tb(tops_dte_ctx_t &ctx, const mdspan<D> &dst, const mdspan<S> &src, ATOPS_SITE) {
    ATOPS_NOW("mirror_tb", 210, (atops::describe::mirror_tb<D>(dst, src)));
}
template <class D, class S>
inline event mirror_tb_async(tops_dte_ctx_t &ctx, const mdspan<D> &dst, const mdspan<S> &src, ATOPS_SITE) {
    ATOPS_LATER("mirror_tb_async", 210, (atops::describe::mirror_tb<D>(dst, src)));
}
template <class D, class S>
inline void mirror_lr(tops_dte_ctx_t &ctx, const mdspan<D> &dst, const mdspan<S> &src, ATOPS_SITE) {
    ATOPS_NOW("mirror_lr", 210, (atops::describe::mirror_lr<D>(dst, src)));
}
template <class D, class S>
inline event mirror_lr_async(tops_dte_ctx_t &ctx, const mdspan<D> &dst, const mdspan<S> &src, ATOPS_SITE) {
    ATOPS_LATER("mirror_lr_async", 210, (atops::describe::mirror_lr<D>(dst, src)));
}
template <class D, class S>
inline void broadcast(tops_dte_ctx_t &ctx, const mdspan<D> &dst, const mdspan<S> &src, ATOPS_SITE) {
    ATOPS_NOW("broadcast", 210, (atops::describe::broadcast<D>(dst, src)));
}
template <class D, class S>
inline event broadcast_async(tops_dte_ctx_t &ctx, const mdspan<D> &dst, const mdspan<S> &src, ATOPS_SITE) {
    ATOPS_LATER("broadcast_async", 210, (atops::describe::broadcast<D>(dst, src)));
}
template <class D, class S>
inline void slice_pad(tops_dte_ctx_t &ctx, const mdspan<D> &dst, const mdspan<S> &src, const numbers &src_offsets,
    const numbers &slice_shape, const numbers &pad_low, const numbers &pad_high, const numbers &pad_mid,
    std::remove_const_t<D> pad_value = {}, ATOPS_SITE) {
    ATOPS_NOW("slice_pad", 300, (atops::describe::slice_pad<D>(dst, src, src_offsets, slice_shape, pad_low, pad_high, pad_mid, pad_value)));
}
template <class D, class S>
inline event slice_pad_async(tops_dte_ctx_t &ctx, const mdspan<D> &dst, const mdspan<S> &src, const numbers
    &src_offsets, const numbers &slice_shape, const numbers &pad_low, const numbers &pad_high, const numbers &pad_mid,
    std::remove_const_t<D> pad_value = {}, ATOPS_SITE) {
    ATOPS_LATER("slice_pad_async", 300, (atops::describe::slice_pad<D>(dst, src, src_offsets, slice_shape, pad_low, pad_high, pad_mid, pad_value)));
}
template <class D, class S>
inline void slice_deslice(tops_dte_ctx_t &ctx, const mdspan<D> &dst, const mdspan<S> &src, const numbers &src_offsets,
    const numbers &slice_shape, const numbers &dst_offsets, ATOPS_SITE) {
    ATOPS_NOW("slice_deslice", 300, (atops::describe::slice_deslice<D>(dst, src, src_offsets, slice_shape, dst_offsets)));
}
template <class D, class S>
inline event slice_deslice_async(tops_dte_ctx_t &ctx, const mdspan<D> &dst, const mdspan<S> &src, const numbers
    &src_offsets, const numbers &slice_shape, const numbers &dst_offsets, ATOPS_SITE) {
    ATOPS_LATER("slice_deslice_async", 300, (atops::describe::slice_deslice<D>(dst, src, src_offsets, slice_shape, dst_offsets)));
}
template <class D, class S>
inline void slice_broadcast(tops_dte_ctx_t &ctx, const mdspan<D> &dst, const mdspan<S> &src, const numbers
    &src_offsets, const numbers &slice_shape, ATOPS_SITE) {
    ATOPS_NOW("slice_broadcast", 300, (atops::describe::slice_broadcast<D>(dst, src, src_offsets, slice_shape)));
}
template <class D, class S>
inline event slice_broadcast_async(tops_dte_ctx_t &ctx, const mdspan<D> &dst, const mdspan<S> &src, const numbers
    &src_offsets, const numbers &slice_shape, ATOPS_SITE) {
    ATOPS_LATER("slice_broadcast_async", 300, (atops::describe::slice_broadcast<D>(dst, src, src_offsets, slice_shape)));
}
template <class D, class S>
inline void slice_expand(tops_dte_ctx_t &ctx, const mdspan<D> &dst, const mdspan<S> &src, const numbers &src_offsets,
    const numbers &slice_shape, int phase, int ratio, ATOPS_SITE) {
    ATOPS_NOW("slice_expand", 300, (atops::describe::slice_expand<D>(dst, src, src_offsets, slice_shape, phase, ratio)));
}
template <class D, class S>
inline event slice_expand_async(tops_dte_ctx_t &ctx, const mdspan<D> &dst, const mdspan<S> &src, const numbers
    &src_offsets, const numbers &slice_shape, int phase, int ratio, ATOPS_SITE) {
    ATOPS_LATER("slice_expand_async", 300, (atops::describe::slice_expand<D>(dst, src, src_offsets, slice_shape, phase, ratio)));
}
template <class D, class S>
inline void shrink_deslice(tops_dte_ctx_t &ctx, const mdspan<D> &dst, const mdspan<S> &src, int phase, int ratio,
    const numbers &dst_offsets, ATOPS_SITE) {
    ATOPS_NOW("shrink_deslice", 300, (atops::describe::shrink_deslice<D>(dst, src, phase, ratio, dst_offsets)));
}
template <class D, class S>
inline event shrink_deslice_async(tops_dte_ctx_t &ctx, const mdspan<D> &dst, const mdspan<S> &src, int phase, int
    ratio, const numbers &dst_offsets, ATOPS_SITE) {
    ATOPS_LATER("shrink_deslice_async", 300, (atops::describe::shrink_deslice<D>(dst, src, phase, ratio, dst_offsets)));
}
template <class D, class S, class V>
inline void memset_deslice(tops_dte_ctx_t &ctx, const mdspan<D> &dst, const mdspan<S> &src, const numbers
    &dst_offsets, V value, ATOPS_SITE) {
    ATOPS_NOW("memset_deslice", 300, (atops::describe::memset_deslice<D>(dst, src, dst_offsets, value)));
}
template <class D, class S, class V>
inline event memset_deslice_async(tops_dte_ctx_t &ctx, const mdspan<D> &dst, const mdspan<S> &src, const numbers
    &dst_offsets, V value, ATOPS_SITE) {
    ATOPS_LATER("memset_deslice_async", 300, (atops::describe::memset_deslice<D>(dst, src, dst_offsets, value)));
}
template <class D, class S>
inline void mirror_tb_pad(tops_dte_ctx_t &ctx, const mdspan<D> &dst, const mdspan<S> &src, const numbers &pad_low,
    const numbers &pad_high, const numbers &pad_mid, std::remove_const_t<D> value = {}, ATOPS_SITE) {
    ATOPS_NOW("mirror_tb_pad", 300, (atops::describe::mirror_tb_pad<D>(dst, src, pad_low, pad_high, pad_mid, value)));
}
template <class D, class S>
inline event mirror_tb_pad_async(tops_dte_ctx_t &ctx, const mdspan<D> &dst, const mdspan<S> &src, const numbers
    &pad_low, const numbers &pad_high, const numbers &pad_mid, std::remove_const_t<D> value = {}, ATOPS_SITE) {
    ATOPS_LATER("mirror_tb_pad_async", 300, (atops::describe::mirror_tb_pad<D>(dst, src, pad_low, pad_high, pad_mid, value)));
}
template <class D, class S>
inline void mirror_lr_pad(tops_dte_ctx_t &ctx, const mdspan<D> &dst, const mdspan<S> &src, const numbers &pad_low,
    const numbers &pad_high, const numbers &pad_mid, std::remove_const_t<D> value = {}, ATOPS_SITE) {
    ATOPS_NOW("mirror_lr_pad", 300, (atops::describe::mirror_lr_pad<D>(dst, src, pad_low, pad_high, pad_mid, value)));
}
template <class D, class S>
inline event mirror_lr_pad_async(tops_dte_ctx_t &ctx, const mdspan<D> &dst, const mdspan<S> &src, const numbers
    &pad_low, const numbers &pad_high, const numbers &pad_mid, std::remove_const_t<D> value = {}, ATOPS_SITE) {
    ATOPS_LATER("mirror_lr_pad_async", 300, (atops::describe::mirror_lr_pad<D>(dst, src, pad_low, pad_high, pad_mid, value)));
}
template <class D, class S>
inline void mirror_tb_deslice(tops_dte_ctx_t &ctx, const mdspan<D> &dst, const mdspan<S> &src, const numbers
    &dst_offsets, ATOPS_SITE) {
    ATOPS_NOW("mirror_tb_deslice", 300, (atops::describe::mirror_tb_deslice<D>(dst, src, dst_offsets)));
}
template <class D, class S>
inline event mirror_tb_deslice_async(tops_dte_ctx_t &ctx, const mdspan<D> &dst, const mdspan<S> &src, const numbers
    &dst_offsets, ATOPS_SITE) {
    ATOPS_LATER("mirror_tb_deslice_async", 300, (atops::describe::mirror_tb_deslice<D>(dst, src, dst_offsets)));
}
template <class D, class S>
inline void mirror_lr_deslice(tops_dte_ctx_t &ctx, const mdspan<D> &dst, const mdspan<S> &src, const numbers
    &dst_offsets, ATOPS_SITE) {
    ATOPS_NOW("mirror_lr_deslice", 300, (atops::describe::mirror_lr_deslice<D>(dst, src, dst_offsets)));
}
template <class D, class S>
inline event mirror_lr_deslice_async(tops_dte_ctx_t &ctx, const mdspan<D> &dst, const mdspan<S> &src, const numbers
    &dst_offsets, ATOPS_SITE) {
    ATOPS_LATER("mirror_lr_deslice_async", 300, (atops::describe::mirror_lr_deslice<D>(dst, src, dst_offsets)));
}
template <class D, class S>
inline void sub_sample(tops_dte_ctx_t &ctx, const mdspan<D> &dst, const mdspan<S> &src, const numbers &dim_stride,
    ATOPS_SITE) {
    ATOPS_NOW("sub_sample", 300, (atops::describe::sub_sample<D>(dst, src, dim_stride)));
}
template <class D, class S>
inline event sub_sample_async(tops_dte_ctx_t &ctx, const mdspan<D> &dst, const mdspan<S> &src, const numbers
    &dim_stride, ATOPS_SITE) {
    ATOPS_LATER("sub_sample_async", 300, (atops::describe::sub_sample<D>(dst, src, dim_stride)));
}

#undef ATOPS_NOW
#undef ATOPS_LATER

}  // namespace tops
