// What a panel does with the scores of one tile, whatever made them: bias,
// mask, softmax in place, statistics. Included once per target; used by the
// forward over packed tiles and by the one for few queries (decode.cc).

// clang-format off
#if defined(HEADWISE_OPS_ATTENTION_CPU_VISIT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_OPS_ATTENTION_CPU_VISIT_INL_H_
#undef HEADWISE_OPS_ATTENTION_CPU_VISIT_INL_H_
#else
#define HEADWISE_OPS_ATTENTION_CPU_VISIT_INL_H_
#endif
// clang-format on

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "headwise/ops/attention/cpu/panel-inl.h"
#include "headwise/ops/attention/cpu/softmax-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headwise {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A tile of keys, from j on, and which of them are excluded.
struct KeyTile {
  int64_t j = 0;
  const uint8_t* excluded = nullptr;  // [kTileKeys]; null: none

  // skip: [kTileKeys], memory for the marks.
  KeyTile(const ForwardCall& call, const Sequence& sequence, int64_t tile,
          uint8_t* skip)
      : j(tile * kTileKeys) {
    if (call.statistics != Statistics::kFull) return;
    const ConstTensorView& marks = call.observation->excluded_keys;
    if (!marks) return;
    const uint8_t* from = marks.Raw<uint8_t>() +
                          sequence.batch * marks.stride[0] +
                          sequence.key_begin + j;
    const int64_t real = std::min(kTileKeys, sequence.keys - j);
    std::fill_n(skip, kTileKeys, uint8_t{0});
    std::copy_n(from, real, skip);
    if (std::any_of(skip, skip + real, [](uint8_t x) { return x != 0; })) {
      excluded = skip;
    }
  }
};

// Scratch memory of one visit.
struct TileMemory {
  float* s = nullptr;        // [kTileKeys, kTileColumns]: scores, then e
  float* partial = nullptr;  // [kTileKeys, kTileColumns]
};

// Maxima of the tile into the panel.
template <WalkLevel kLevel>
HWY_INLINE void RaisePanel(Panel& panel, const KeyTile& tile, size_t keys,
                           const float* s) {
  constexpr bool kKeys = kLevel != WalkLevel::kNone;
  constexpr bool kKept = kLevel >= WalkLevel::kKept;
  TileMaximum top =
      FindMaximum<kKeys>(s, keys, kKept ? tile.excluded : nullptr);
  const auto raise = [&](const TileMaximum& t, float* m,
                         int32_t* argmax) HWY_ATTR {
    RaiseMaximum(t.value.x, t.key.x, tile.j, m, argmax);
    RaiseMaximum(t.value.y, t.key.y, tile.j, m + kLanes, argmax + kLanes);
    RaiseMaximum(t.value.z, t.key.z, tile.j, m + 2 * kLanes,
                 argmax + 2 * kLanes);
  };
  if constexpr (kKept) {
    raise(top, panel.kept_m, panel.kept_argmax);
    if (tile.excluded != nullptr) AddSkipped(s, keys, tile.excluded, top);
  }
  raise(top, panel.m, panel.argmax);
}

HWY_INLINE void AddLabels(const ForwardCall& call, const ScoreRule& rule,
                          Panel& panel, int64_t j, size_t keys, const float* e,
                          const Row& alpha) {
  const ConstTensorView& labels = call.observation->key_labels;
  const size_t real = std::min<int64_t>(keys, rule.sequence.keys - j);
  for (int64_t c = 0; c < call.labels; ++c) {
    AddLabelMass(e, real,
                 labels.Raw<int32_t>() + c * labels.stride[0] +
                     rule.sequence.batch * labels.stride[1] +
                     (rule.sequence.key_begin + j) * labels.stride[2],
                 labels.stride[2], panel.labels[c], alpha, panel.label_mass[c]);
  }
}

// Products memory.s of `keys` keys become e; sums and statistics go into the
// panel. Returns the factors α of what was summed over earlier keys.
template <WalkLevel kLevel>
HWY_INLINE Row SoftmaxTile(const ForwardCall& call, const ScoreRule& rule,
                           const KeyTile& tile, bool wants_histogram,
                           size_t keys, bool masked, Panel& panel,
                           const TileMemory& memory) {
  float* s = memory.s;
  if (masked || !rule.plain()) {
    AdjustScores(rule, panel, tile.j, keys, masked, s);
  }
  const Row old_m = LoadRow(panel.m);
  const Row old_l = LoadRow(panel.l);
  RaisePanel<kLevel>(panel, tile, keys, s);
  const TileWalk walk = {tile.j, keys};
  const bool crosses =
      wants_histogram && panel.next_edge <= tile.j + static_cast<int64_t>(keys);
  const Row alpha = UpdatePanel<kLevel>(panel, walk, old_m, masked, crosses, s,
                                        memory.partial);
  if (crosses) {
    HWY_ALIGN float earlier_l[kTileColumns];
    StoreRow(Scaled(old_l, alpha), earlier_l);
    CrossEdges(panel, walk, earlier_l, memory.partial);
  }
  if (call.labels > 0) AddLabels(call, rule, panel, tile.j, keys, s, alpha);
  return alpha;
}

// visit(tile) for every tile that some panel sees, in the order of keys.
template <typename Visit>
HWY_INLINE void ForTilesSeen(std::span<const Panel> panels, int64_t keys,
                             const Visit& visit) {
  int64_t sinks = 0, begin = keys, end = 0;
  for (const Panel& panel : panels) {
    sinks = std::max(sinks, panel.sinks);
    begin = std::min(begin, panel.begin);
    end = std::max(end, panel.end);
  }
  const int64_t sink_tiles = (sinks + kTileKeys - 1) / kTileKeys;
  const int64_t end_tile = (end + kTileKeys - 1) / kTileKeys;
  const int64_t begin_tile = std::max(sink_tiles, begin / kTileKeys);
  for (int64_t t = 0; t < sink_tiles; ++t) visit(t);
  for (int64_t t = begin_tile; t < end_tile; ++t) visit(t);
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#endif  // HEADWISE_OPS_ATTENTION_CPU_VISIT_INL_H_
