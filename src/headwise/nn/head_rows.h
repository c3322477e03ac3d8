// Rows of a mixture of heads: a row is a token and a head that it chose. Rows
// lie by head, then sequence, then place. Private to attention_by_head*.cc.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "headwise/context.h"
#include "headwise/nn/attention_layer.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/tensor/slice.h"
#include "headwise/tensor/temp.h"

namespace headwise {

// Which rows there are. To the operator every (head, sequence) is a sequence.
struct HeadRows {
  std::vector<int32_t> tokens;     // of each row
  std::vector<int32_t> slots;      // token · heads + head
  std::vector<int32_t> places;     // in the sequence, as masks count
  std::vector<int32_t> positions;  // as rotary positions count
  std::vector<int32_t> query_starts = {0};
  std::vector<int32_t> key_starts = {0};
  std::vector<int64_t> heads = {0};  // rows heads[h] … heads[h + 1] − 1
  int64_t all = 0;                   // tokens, chosen or not

  int64_t count() const { return std::ssize(tokens); }
  int64_t OfHead(int64_t head) const { return heads[head + 1] - heads[head]; }
};

// Each sequence's place of its first query, and its number of keys.
struct RowPlaces {
  std::vector<int32_t> first, keys;
};
// gates [T, H]: a token chose a head where they are not 0.
HeadRows GroupByHead(std::span<const float> gates, const RowPlaces& places,
                     const SequenceBatch& batch);

// The length of the longest sequence.
int64_t LongestOf(std::span<const int32_t> starts);

// A head's rows of x [R, n].
template <typename View>
View RowsOf(const HeadRows& rows, int64_t head, const View& x) {
  return Rows(x, rows.heads[head], rows.heads[head + 1]);
}

// The rows of x [T, n] whose tokens chose a head: where they lie if all did,
// else of a copy, which `copy` keeps.
ConstTensorView Chosen(Context& context, const HeadRows& rows, int64_t head,
                       const ConstTensorView& x, Temp& copy);

// add(part) adds to the rows of y [T, n] whose tokens chose a head.
template <typename Function>
void AddToChosen(Context& context, const HeadRows& rows, int64_t head,
                 const TensorView& y, const Function& add) {
  const int64_t count = rows.OfHead(head);
  if (count == 0) return;
  if (count == rows.all) return add(y);
  const ConstTensorView tokens = RowsOf(rows, head, ViewOf(rows.tokens));
  const Temp part(context, y.type, {count, y.shape[1]});
  GatherRows(context, y, tokens, part.view());
  add(part.view());
  ScatterRows(context, part.view(), tokens, y);
}

// x [1, S, G, n] as y [heads · S, n], head after head, a group's for each of
// its heads; and the sums of these back.
void SpreadHeads(Context& context, const TensorView& x, int64_t heads,
                 const TensorView& y);
void SumHeads(Context& context, const TensorView& y, int64_t heads,
              const TensorView& x);

}  // namespace headwise
