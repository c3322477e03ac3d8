// Door: head_rows.h.
#include "headwise/nn/head_rows.h"

#include <algorithm>

#include "headwise/ops/pointwise/pointwise.h"

namespace headwise {
namespace {

// [heads · S, n] as [G, heads / G, S, n].
TensorView ByGroup(const TensorView& y, const TensorView& x, int64_t heads) {
  const int64_t groups = x.shape[2];
  return Reshaped(y, {groups, heads / groups, x.shape[1], x.shape[3]});
}

}  // namespace

HeadRows GroupByHead(std::span<const float> gates, const RowPlaces& places,
                     const SequenceBatch& batch) {
  const int64_t sequences = batch.sequences();
  HeadRows rows;
  rows.all = batch.total();
  const int64_t heads = std::ssize(gates) / rows.all;
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t b = 0; b < sequences; ++b) {
      const int32_t begin = batch.starts[b];
      for (int32_t t = begin; t < batch.starts[b + 1]; ++t) {
        const int64_t slot = t * heads + h;
        if (gates[slot] == 0) continue;
        rows.tokens.push_back(t);
        rows.slots.push_back(static_cast<int32_t>(slot));
        rows.places.push_back(places.first[b] + t - begin);
        rows.positions.push_back(batch.positions[t]);
      }
      rows.query_starts.push_back(static_cast<int32_t>(rows.count()));
      rows.key_starts.push_back(rows.key_starts.back() + places.keys[b]);
    }
    rows.heads.push_back(rows.count());
  }
  // As many places as sequences would be read as one a sequence.
  if (rows.count() == heads * sequences) {
    rows.query_starts.push_back(rows.query_starts.back());
    rows.key_starts.push_back(rows.key_starts.back());
  }
  return rows;
}

int64_t LongestOf(std::span<const int32_t> starts) {
  int32_t most = 0;
  for (size_t i = 1; i < starts.size(); ++i) {
    most = std::max(most, starts[i] - starts[i - 1]);
  }
  return most;
}

ConstTensorView Chosen(Context& context, const HeadRows& rows, int64_t head,
                       const ConstTensorView& x, Temp& copy) {
  const int64_t count = rows.OfHead(head);
  if (count == rows.all) return x;
  copy = Temp(context, x.type, {count, x.shape[1]});
  GatherRows(context, x, RowsOf(rows, head, ViewOf(rows.tokens)), copy.view());
  return copy.view();
}

void SpreadHeads(Context& context, const TensorView& x, int64_t heads,
                 const TensorView& y) {
  const int64_t keys = x.shape[1], groups = x.shape[2], width = x.shape[3];
  const TensorView each = Broadcast(Reshaped(x, {keys, groups, 1, width}),
                                    {keys, groups, heads / groups, width});
  Copy(context, Transposed(Transposed(each, 0, 1), 1, 2), ByGroup(y, x, heads));
}

void SumHeads(Context& context, const TensorView& y, int64_t heads,
              const TensorView& x) {
  const TensorView members = ByGroup(y, x, heads);
  const TensorView sum = Transposed(At(x, 0, 0), 0, 1);
  for (int64_t i = 0; i < members.shape[1]; ++i) {
    const TensorView one = At(members, 1, i);
    i == 0 ? Copy(context, one, sum) : AddTo(context, one, sum);
  }
}

}  // namespace headwise
