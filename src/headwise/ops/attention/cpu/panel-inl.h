// A panel: kTileColumns neighbouring queries of one head, or a few queries of
// several heads that read the same keys, one in each lane of three vectors, and
// the state of their streaming softmax. Included once per target; used by the
// forward and by the one for few queries.
//
// With queries in lanes, what belongs to a query (its maximum, its sums) is a
// lane of a register: no step of the softmax or of its statistics goes across
// lanes, and a NaN cannot leave its query. Scores are in base 2: s = log2e · z.

// clang-format off
#if defined(HEADWISE_OPS_ATTENTION_CPU_PANEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_OPS_ATTENTION_CPU_PANEL_INL_H_
#undef HEADWISE_OPS_ATTENTION_CPU_PANEL_INL_H_
#else
#define HEADWISE_OPS_ATTENTION_CPU_PANEL_INL_H_
#endif
// clang-format on

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "headwise/observation.h"
#include "headwise/ops/attention/cpu/forward_plan.h"
#include "headwise/ops/attention/cpu/score-inl.h"
#include "headwise/ops/attention/cpu/score_rule.h"
#include "headwise/ops/matmul/cpu/pack-inl.h"
#include "headwise/ops/matmul/cpu/tile-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headwise {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using I32 = hn::RebindToSigned<F32>;

// Keys are worked on in steps of this: whole tiles, and what the softmax takes
// at one time.
inline constexpr size_t kKeyStep = 8;
static_assert(kKeyStep % kTileRows == 0);

// Edges between the histogram's buckets, in the order of keys: the mass before
// edge e is that of keys j < p + EdgeOffset(e).
inline constexpr int kEdges = kHistogramBuckets - 1;
constexpr int64_t EdgeOffset(int e) {
  return e < kHistogramCenter ? 1 - (int64_t{1} << (kHistogramCenter - 1 - e))
                              : int64_t{1} << (e - kHistogramCenter);
}

// One value per query.
template <typename T>
using PerLane = T[kTileColumns];

// Which queries a panel holds: lane h · count + i is query first + i of its
// head h. Several heads only without a bias: that differs between heads.
struct PanelQueries {
  int64_t first = 0;  // from the sequence's first
  int64_t count = 0;
  int64_t heads = 1;
};

struct alignas(64) Panel {
  int64_t first = 0;     // query of lane 0, from the sequence's first
  int64_t queries = 0;   // of each head
  int64_t count = 0;     // lanes in use
  int64_t position = 0;  // of lane 0
  // The keys that some query sees lie in [0, sinks) and [begin, end); every
  // query sees all of [0, all_sinks) and [all_begin, all_end).
  int64_t sinks = 0, begin = 0, end = 0;
  int64_t all_sinks = 0, all_begin = 0, all_end = 0;
  // No key lies before an edge under first_edge, none behind end_edge or one
  // above it: those buckets are empty for all queries.
  int first_edge = 0, end_edge = kEdges;
  int open_edge = 0;      // all queries have crossed those under it
  int64_t next_edge = 0;  // the first key position at which a bucket ends

  alignas(64) PerLane<int32_t> lane_sinks, lane_begin, lane_end;
  PerLane<float> lane_query;  // counted from `first`
  // Sums over the keys so far, relative to the maximum m (attention.md's
  // letters): e, e·x, e·|p − j|, e·x², e².
  alignas(64) PerLane<float> m, l, t, d, u, r;
  PerLane<float> kept_m;  // maximum over keys that are not excluded
  PerLane<int32_t> argmax, kept_argmax;
  PerLane<float> label_mass[kMaxLabelChannels];
  PerLane<int32_t> labels[kMaxLabelChannels];
  // l and m at the time when the walk over keys crossed each bucket's edge,
  // which the first crossed[e] queries have done.
  PerLane<float> edge_l[kEdges], edge_m[kEdges];
  int32_t crossed[kEdges];

  // The query of a lane, counted from `first`.
  int64_t QueryOf(int64_t lane) const {
    return static_cast<int64_t>(lane_query[lane]);
  }
  // Keys of the tile at j that must be worked on; 0: the panel sees none.
  size_t KeysOfTile(int64_t j) const {
    int64_t keys = std::min(sinks - j, kTileKeys);
    if (begin < j + kTileKeys) keys = std::max(keys, end - j);
    keys = std::clamp<int64_t>(keys, 0, kTileKeys);
    return (static_cast<size_t>(keys) + kKeyStep - 1) / kKeyStep * kKeyStep;
  }
  bool AllSeeAll(int64_t j, size_t keys) const {
    const int64_t stop = j + static_cast<int64_t>(keys);
    return (all_begin <= j && all_end >= stop) || all_sinks >= stop;
  }
};

template <typename T>
HWY_INLINE void FillLanes(PerLane<T>& lanes, T value) {
  std::fill(lanes, lanes + kTileColumns, value);
}

HWY_INLINE void SetVisible(const ScoreRule& rule, Panel& panel) {
  panel.begin = panel.all_sinks = panel.all_end = rule.sequence.keys;
  panel.end = panel.sinks = panel.all_begin = 0;
  for (size_t lane = 0; lane < kTileColumns; ++lane) {
    const bool used = static_cast<int64_t>(lane) < panel.count;
    const KeyRange range =
        used ? rule.Visible(panel.first +
                            panel.QueryOf(static_cast<int64_t>(lane)))
             : KeyRange();
    panel.lane_sinks[lane] = static_cast<int32_t>(range.sinks);
    panel.lane_begin[lane] = static_cast<int32_t>(range.begin);
    panel.lane_end[lane] = static_cast<int32_t>(range.end);
    if (!used) continue;
    panel.sinks = std::max(panel.sinks, range.sinks);
    panel.begin = std::min(panel.begin, range.begin);
    panel.end = std::max(panel.end, range.end);
    panel.all_sinks = std::min(panel.all_sinks, range.sinks);
    panel.all_begin = std::max(panel.all_begin, range.begin);
    panel.all_end = std::min(panel.all_end, range.end);
  }
}

// Edges that lie among `keys` keys for some query; the walk begins at the
// first of them.
HWY_INLINE void SetEdges(int64_t keys, Panel& panel) {
  const int64_t last = panel.position + panel.queries - 1;
  int e = 0;
  while (e < kEdges && last + EdgeOffset(e) <= 0) ++e;
  panel.first_edge = e;
  panel.next_edge = e < kEdges ? panel.position + EdgeOffset(e) : INT64_MAX;
  while (e < kEdges && panel.position + EdgeOffset(e) < keys) ++e;
  panel.end_edge = e;
  panel.open_edge = panel.first_edge;
  std::fill(panel.crossed + panel.first_edge, panel.crossed + e, 0);
}

HWY_INLINE void ClearPanel(const ForwardCall& call, const ScoreRule& rule,
                           const PanelQueries& queries, Panel& panel) {
  panel.first = queries.first;
  panel.queries = queries.count;
  panel.count = queries.count * queries.heads;
  panel.position = rule.sequence.PositionOf(queries.first);
  for (size_t lane = 0; lane < kTileColumns; ++lane) {
    const int64_t index = static_cast<int64_t>(lane);
    panel.lane_query[lane] =
        static_cast<float>(queries.heads == 1 ? index : index % queries.count);
  }
  SetVisible(rule, panel);
  FillLanes(panel.m, kMinusInfinity);
  FillLanes(panel.kept_m, kMinusInfinity);
  for (PerLane<float>* sum :
       {&panel.l, &panel.t, &panel.d, &panel.u, &panel.r}) {
    FillLanes(*sum, 0.0f);
  }
  FillLanes(panel.argmax, -1);
  FillLanes(panel.kept_argmax, -1);
  SetEdges(rule.sequence.keys, panel);
  for (int64_t c = 0; c < call.labels; ++c) {
    FillLanes(panel.label_mass[c], 0.0f);
    FillLanes(panel.labels[c], -1);
    const ConstTensorView& labels = call.observation->query_labels;
    const int32_t* first =
        labels.Raw<int32_t>() + c * labels.stride[0] +
        rule.sequence.batch * labels.stride[1] +
        (rule.sequence.query_begin + panel.first) * labels.stride[2];
    for (int64_t lane = 0; lane < panel.count; ++lane) {
      panel.labels[c][lane] = first[panel.QueryOf(lane) * labels.stride[2]];
    }
  }
}

// Which lanes see key j, as a mask of float lanes. `lane`: the first lane.
HWY_INLINE hn::Mask<F32> SeenBy(const Panel& panel, size_t lane, int64_t j) {
  const I32 d;
  const auto key = hn::Set(d, static_cast<int32_t>(j));
  const auto begin = hn::LoadU(d, panel.lane_begin + lane);
  const auto end = hn::LoadU(d, panel.lane_end + lane);
  const auto sinks = hn::LoadU(d, panel.lane_sinks + lane);
  const auto in_band = hn::AndNot(hn::VecFromMask(d, hn::Lt(key, begin)),
                                  hn::VecFromMask(d, hn::Lt(key, end)));
  const auto in_sinks = hn::VecFromMask(d, hn::Lt(key, sinks));
  return hn::RebindMask(F32(), hn::MaskFromVec(hn::Or(in_band, in_sinks)));
}

// bias[keys − 1 + lane − r] = log2e · bias of the query in `lane` for key
// j + r: lanes of one key lie side by side.
HWY_INLINE void RelativeBiasOfTile(const ScoreRule& rule, const Panel& panel,
                                   int64_t j, size_t keys, float* bias) {
  const int64_t first = j + static_cast<int64_t>(keys) - 1 - panel.position;
  for (size_t x = 0; x < keys + kTileColumns - 1; ++x) {
    const int64_t distance =
        std::clamp(first - static_cast<int64_t>(x), -rule.reach, rule.reach);
    bias[x] = kLog2E * rule.table[distance + rule.reach];
  }
}

// Products become scores: soft cap, bias, −∞ for keys that a query does not
// see. s: [keys, kTileColumns], keys from j.
HWY_INLINE void AdjustScores(const ScoreRule& rule, const Panel& panel,
                             int64_t j, size_t keys, bool masked,
                             float* HWY_RESTRICT s) {
  const F32 d;
  HWY_ALIGN float bias[kTileKeys + kTileColumns];
  if (rule.bias == AttentionBias::kRelative) {
    RelativeBiasOfTile(rule, panel, j, keys, bias);
  }
  const float before = static_cast<float>(panel.position - j);
  for (size_t r = 0; r < keys; ++r) {
    for (size_t lane = 0; lane < kTileColumns; lane += kLanes) {
      float* at = s + r * kTileColumns + lane;
      VF x = hn::LoadU(d, at);
      if (rule.cap != 0) {
        x = hn::Mul(TanhOfDoubled(x), hn::Set(d, rule.cap));
      }
      if (rule.bias == AttentionBias::kAlibi) {
        const VF distance = hn::Iota(
            d, before - static_cast<float>(r) + static_cast<float>(lane));
        x = hn::NegMulAdd(hn::Set(d, rule.slope), hn::Abs(distance), x);
      } else if (rule.bias == AttentionBias::kRelative) {
        x = hn::Add(x, hn::LoadU(d, bias + keys - 1 - r + lane));
      }
      if (masked) {
        x = hn::IfThenElse(SeenBy(panel, lane, j + static_cast<int64_t>(r)), x,
                           hn::Set(d, kMinusInfinity));
      }
      hn::StoreU(x, d, at);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#endif  // HEADWISE_OPS_ATTENTION_CPU_PANEL_INL_H_
