// One query at a time. Door: query_row.h.
#include "headwise/ops/attention/cpu/query_row.h"

#include <algorithm>

#include "headwise/ops/attention/cpu/views.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "headwise/ops/attention/cpu/query_row.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.
#include "headwise/ops/attention/cpu/dots-inl.h"
#include "headwise/ops/attention/cpu/score-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headwise {
namespace HWY_NAMESPACE {
namespace {

// Keys [j, j + count), count ≤ kTileColumns, into p[kTileColumns].
void Segment(const QueryRow& row, int64_t j, size_t count,
             float* HWY_RESTRICT p) {
  const F32 d;
  const Rows keys = {row.k, row.key_stride};
  size_t c = 0;
  for (; c + 4 <= count; c += 4) {
    ScoreFourKeys<1>(keys, j + static_cast<int64_t>(c), row.q, row.head_dim, {},
                     p + c);
  }
  for (; c < kTileColumns; ++c) {
    const int64_t key = j + static_cast<int64_t>(c);
    p[c] = c < count ? Dot(row.q, keys.at(key), row.head_dim) : 0.0f;
  }
  ScoreRow(row.rule, row.query, j, p, nullptr);
  const VF shift = hn::Set(d, RowShift(row.lse));
  for (c = 0; c < kTileColumns; c += kLanes) {
    hn::StoreU(Probability(hn::LoadU(d, p + c), shift), d, p + c);
  }
}

// Keys [begin, end), all of which exist, into p.
void Segments(const QueryRow& row, int64_t begin, int64_t end,
              float* HWY_RESTRICT p) {
  HWY_ALIGN float segment[kTileColumns];
  constexpr int64_t kStep = kTileColumns;
  for (int64_t j = begin; j < end; j += kStep) {
    const int64_t count = std::min(kStep, end - j);
    Segment(row, j, count, segment);
    std::copy(segment, segment + count, p + (j - begin));
  }
}

}  // namespace

void Dense(const QueryRow& row, int64_t begin, int64_t end, float* p) {
  std::fill(p, p + (end - begin), 0.0f);
  const KeyRange range = row.Visible();
  Segments(row, begin, std::min(range.sinks, end), p);
  const int64_t first = std::max(begin, range.begin);
  Segments(row, first, std::min(end, range.end), p + (first - begin));
}

// Up to kTileColumns listed keys at once: a product is their score.
void ListedPlain(const QueryRow& row, const KeyRange& range,
                 std::span<const int32_t> keys, float* HWY_RESTRICT p) {
  HWY_ALIGN float segment[kTileColumns] = {};
  const F32 d;
  for (size_t n = 0; n < keys.size(); ++n) {
    segment[n] = Dot(row.q, row.k + keys[n] * row.key_stride, row.head_dim);
  }
  const VF shift = hn::Set(d, RowShift(row.lse));
  for (size_t c = 0; c < keys.size(); c += kLanes) {
    hn::StoreU(Probability(hn::LoadU(d, segment + c), shift), d, segment + c);
  }
  for (size_t n = 0; n < keys.size(); ++n) {
    const int64_t j = keys[n];
    const bool seen = j < range.sinks || (j >= range.begin && j < range.end);
    p[n] = seen ? segment[n] : 0.0f;
  }
}

void Listed(const QueryRow& row, std::span<const int32_t> keys, float* p) {
  HWY_ALIGN float segment[kTileColumns];
  const KeyRange range = row.Visible();
  if (row.rule.plain()) {
    for (size_t n = 0; n < keys.size(); n += kTileColumns) {
      const size_t count = std::min<size_t>(kTileColumns, keys.size() - n);
      ListedPlain(row, range, keys.subspan(n, count), p + n);
    }
    return;
  }
  for (size_t n = 0; n < keys.size(); ++n) {
    const int64_t j = keys[n];
    p[n] = 0;
    if (j < range.sinks || (j >= range.begin && j < range.end)) {
      Segment(row, j, 1, segment);
      p[n] = segment[0];
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headwise {

HWY_EXPORT(Dense);
HWY_EXPORT(Listed);

QueryRow MakeQueryRow(const AttentionProblem& problem,
                      const AttentionArgs& args, const RowRef& ref,
                      int64_t head, float* q) {
  QueryRow row;
  const Sequence sequence = SequenceOf(problem, args, ref.sequence);
  row.rule = RuleOf(problem, args, sequence, head);
  const int64_t kv_head = head / (problem.heads / problem.kv_heads);
  row.k = At(args.k, sequence.batch, sequence.key_begin, kv_head);
  row.key_stride = args.k.stride[1];
  row.head_dim = problem.head_dim;
  MoveQueryRow(problem, args, ref.query, head, q, row);
  return row;
}

void MoveQueryRow(const AttentionProblem& problem, const AttentionArgs& args,
                  int64_t query, int64_t head, float* q, QueryRow& row) {
  const Sequence& sequence = row.rule.sequence;
  const int64_t at = sequence.query_begin + query;
  const float* from = At(args.q, sequence.batch, at, head);
  for (int64_t d = 0; d < problem.head_dim; ++d) {
    q[d] = from[d] * row.rule.factor;
  }
  row.query = query;
  row.q = q;
  row.lse = *At(args.lse, sequence.batch, head, at);
}

void RowProbabilities(const QueryRow& row, int64_t begin, int64_t end,
                      float* p) {
  HWY_DYNAMIC_DISPATCH(Dense)(row, begin, end, p);
}

void ListedProbabilities(const QueryRow& row, std::span<const int32_t> keys,
                         float* p) {
  HWY_DYNAMIC_DISPATCH(Listed)(row, keys, p);
}

}  // namespace headwise
#endif  // HWY_ONCE
