// The streaming forward of cpu.f32. Door: forward.h.
//
// For each group of key/value heads: pack their keys and values (tasks over
// tiles), then work on blocks of queries (tasks, longest first). A block walks
// the tiles of keys it sees; each of its panels of queries takes a tile in
// three steps: scores S = K·Qᵀ, softmax in place with the statistics, outputs
// O = O·α + Vᵀ·P. Queries lie in lanes, keys and value columns in rows of the
// register tiles.
#include "headwise/ops/attention/cpu/forward.h"

#include <algorithm>
#include <memory_resource>
#include <span>
#include <utility>
#include <vector>

#include "headwise/backend/cpu/scratch_memory.h"
#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/backend/cpu/workspace.h"
#include "headwise/ops/attention/cpu/decode.h"
#include "headwise/ops/attention/cpu/forward_plan.h"
#include "headwise/ops/attention/cpu/one_query.h"
#include "headwise/ops/attention/cpu/results.h"
#include "headwise/ops/attention/cpu/score_rule.h"
#include "headwise/ops/attention/cpu/views.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "headwise/ops/attention/cpu/forward.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.
#include "headwise/ops/attention/cpu/finish-inl.h"
#include "headwise/ops/attention/cpu/panel-inl.h"
#include "headwise/ops/attention/cpu/visit-inl.h"
#include "headwise/ops/matmul/cpu/pack-inl.h"
#include "headwise/ops/matmul/cpu/tile-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headwise {
namespace HWY_NAMESPACE {
namespace {

size_t WholeTiles(size_t n) {
  return (n + kTileRows - 1) / kTileRows * kTileRows;
}

// Sizes of the packed memory.
struct Layout {
  size_t head_dim;
  size_t first_feature;  // value columns, whole tiles
  size_t columns;        // and features, whole tiles
  size_t key_floats;     // of one tile
  size_t value_floats;

  explicit Layout(const ForwardCall& call)
      : head_dim(call.head_dim),
        first_feature(WholeTiles(call.value_dim)),
        columns(first_feature + WholeTiles(call.features)),
        key_floats(kTileKeys * head_dim),
        value_floats(kTileKeys * columns) {}
  size_t tile_floats() const { return key_floats + value_floats; }
};

// Packed tiles of a group: keys [kTileKeys / kTileRows, head_dim, kTileRows],
// values [columns / kTileRows, kTileKeys, kTileRows].
struct PackedTiles {
  float* data = nullptr;
  // Of each tile: whether its values are all finite. Where they are not, a
  // query that must not see one may not even multiply it by 0.
  uint8_t* finite = nullptr;
};

// lines: column 0 of the tile's first key. to: [columns / kTileRows, kTileKeys,
// kTileRows].
void PackColumns(const Lines& lines, size_t keys, size_t columns, float* to) {
  for (size_t e = 0; e < columns; e += kTileRows) {
    PackPanel({lines.data + e, 1, lines.depth_stride},
              std::min(kTileRows, columns - e), keys, kTileRows, 1.0f, to);
    std::fill(to + keys * kTileRows, to + kTileKeys * kTileRows, 0.0f);
    to += kTileKeys * kTileRows;
  }
}

void PackTile(const ForwardCall& call, const Layout& layout,
              const PackedHead& head, int64_t tile, const PackedTiles& packed) {
  const Sequence& s = call.sequences[head.sequence];
  const int64_t j = tile * kTileKeys;
  const size_t keys = std::min<int64_t>(kTileKeys, s.keys - j);
  const int64_t row = s.key_begin + j;
  const int64_t index = head.first_tile + tile;
  float* to = packed.data + index * layout.tile_floats();
  const float* k = At(call.args.k, s.batch, row, head.kv_head);
  const int64_t k_stride = call.args.k.stride[1];
  for (size_t r = 0; r < kTileKeys; r += kTileRows) {
    const size_t count = keys > r ? std::min(kTileRows, keys - r) : 0;
    PackPanel(
        {k + (count > 0 ? static_cast<int64_t>(r) * k_stride : 0), k_stride, 1},
        count, layout.head_dim, kTileRows, 1.0f, to + r * layout.head_dim);
  }
  float* values = to + layout.key_floats;
  PackColumns(
      {At(call.args.v, s.batch, row, head.kv_head), 1, call.args.v.stride[1]},
      keys, call.value_dim, values);
  if (call.features > 0) {
    const ConstTensorView& f = call.observation->key_features;
    PackColumns({f.Raw<float>() + s.batch * f.stride[0] + row * f.stride[1], 1,
                 f.stride[1]},
                keys, call.features, values + layout.first_feature * kTileKeys);
  }
  packed.finite[index] = AllFinite(values, layout.value_floats);
}

// Memory of one worker.
struct Work {
  float* q;  // [panels, head_dim, kTileColumns]
  float* o;  // [panels, columns, kTileColumns]
  TileMemory tile;
  float* rows;       // [kTileColumns, columns]
  float* histogram;  // [kHistogramBuckets, kTileColumns]
  Panel* panels;

  size_t bytes = 0;  // of all of them

  // memory: `bytes` bytes, or null to learn how many.
  Work(const Layout& layout, size_t count, char* memory) {
    const auto take = [&](size_t wanted) -> void* {
      char* at = memory == nullptr ? nullptr : memory + bytes;
      bytes += (wanted + 63) / 64 * 64;
      return at;
    };
    const auto floats = [&](size_t n) {
      return static_cast<float*>(take(n * sizeof(float)));
    };
    panels = static_cast<Panel*>(take(count * sizeof(Panel)));
    q = floats(count * layout.head_dim * kTileColumns);
    o = floats(count * layout.columns * kTileColumns);
    tile.s = floats(kTileKeys * kTileColumns);
    tile.partial = floats(kTileKeys * kTileColumns);
    rows = floats(kTileColumns * layout.columns);
    histogram = floats(kHistogramBuckets * kTileColumns);
  }
};

// o: [columns, kTileColumns], the same multiplied by α, plus e·v over the tile.
HWY_INLINE void AddValues(const Layout& layout, const float* values,
                          const float* e, size_t keys, const Row& alpha,
                          float* o) {
  for (size_t c = 0; c < layout.columns; c += kTileRows) {
    Tile t = Scaled(LoadTile(o + c * kTileColumns, kTileColumns), alpha);
    AddProduct(t, values + c * kTileKeys, e, keys);
    StoreTile(t, o + c * kTileColumns, kTileColumns);
  }
}

// The same where a value may be NaN or ∞ and some queries do not see it.
void AddSeenValues(const Layout& layout, const Panel& panel, int64_t j,
                   const float* values, const float* e, size_t keys,
                   const Row& alpha, float* o) {
  float factor[kTileColumns];
  StoreRow(alpha, factor);
  for (size_t c = 0; c < layout.columns; ++c) {
    const float* column = values + c / kTileRows * kTileRows * kTileKeys;
    for (size_t lane = 0; lane < kTileColumns; ++lane) {
      float& sum = o[c * kTileColumns + lane];
      sum *= factor[lane];
      for (size_t r = 0; r < keys; ++r) {
        const int64_t key = j + static_cast<int64_t>(r);
        if (key < panel.lane_sinks[lane] ||
            (key >= panel.lane_begin[lane] && key < panel.lane_end[lane])) {
          sum += e[r * kTileColumns + lane] *
                 column[r * kTileRows + c % kTileRows];
        }
      }
    }
  }
}

// A tile with its packed keys and values.
struct PackedTile {
  KeyTile key_tile;
  const float* keys = nullptr;
  const float* values = nullptr;
  bool finite = true;
};

// Scores of `keys` keys of the tile: s [keys, kTileColumns].
HWY_NOINLINE void ScorePanel(const float* HWY_RESTRICT k,
                             const float* HWY_RESTRICT q, size_t depth,
                             size_t keys, float* HWY_RESTRICT s) {
  for (size_t r = 0; r < keys; r += kTileRows) {
    Tile t = ZeroTile();
    AddProduct(t, k + r * depth, q, depth);
    StoreTile(t, s + r * kTileColumns, kTileColumns);
  }
}

// One panel takes one tile.
template <WalkLevel kLevel>
HWY_INLINE void VisitTile(const ForwardCall& call, const Layout& layout,
                          const ScoreRule& rule, const PackedTile& tile,
                          bool wants_histogram, size_t keys, Panel& panel,
                          const Work& work, const float* q, float* o) {
  float* s = work.tile.s;
  const int64_t j = tile.key_tile.j;
  ScorePanel(tile.keys, q, layout.head_dim, keys, s);
  const bool masked = !panel.AllSeeAll(j, keys);
  const Row alpha =
      SoftmaxTile<kLevel>(call, rule, tile.key_tile, wants_histogram, keys,
                          masked, panel, work.tile);
  if (masked && !tile.finite) {
    AddSeenValues(layout, panel, j, tile.values, s, keys, alpha, o);
  } else {
    AddValues(layout, tile.values, s, keys, alpha, o);
  }
}

// The block's queries, packed and scaled, and their empty state.
size_t StartBlock(const ForwardCall& call, const Layout& layout,
                  const ScoreRule& rule, const BlockTask& task,
                  const Work& work) {
  const Sequence& s = rule.sequence;
  const int64_t stride = call.args.q.stride[1];
  const size_t width = kTileColumns;
  size_t panels = 0;
  for (int64_t i = 0; i < task.count; i += width, ++panels) {
    const int64_t count = std::min<int64_t>(width, task.count - i);
    const int64_t first = task.begin + i;
    ClearPanel(call, rule, {first, count, 1}, work.panels[panels]);
    const float* q = At(call.args.q, s.batch, s.query_begin + first, task.head);
    PackPanel({q, stride, 1}, count, layout.head_dim, width, rule.factor,
              work.q + panels * layout.head_dim * width);
  }
  std::fill_n(work.o, panels * layout.columns * width, 0.0f);
  return panels;
}

template <WalkLevel kLevel>
void RunBlock(const ForwardCall& call, const Layout& layout,
              const PackedHead& head, const BlockTask& task,
              const PackedTiles& packed, std::span<double> partial,
              const Work& work) {
  const Sequence& sequence = call.sequences[head.sequence];
  const ScoreRule rule =
      NarrowRuleOf(call.problem, call.args, sequence, task.head);
  const size_t panels = StartBlock(call, layout, rule, task, work);
  ResultWriter results(call, sequence, task.head, partial);
  HWY_ALIGN uint8_t skip[kTileKeys];
  ForTilesSeen({work.panels, panels}, sequence.keys, [&](int64_t t) HWY_ATTR {
    const int64_t index = head.first_tile + t;
    const float* data = packed.data + index * layout.tile_floats();
    const PackedTile tile = {KeyTile(call, sequence, t, skip), data,
                             data + layout.key_floats,
                             packed.finite[index] != 0};
    for (size_t p = 0; p < panels; ++p) {
      const size_t keys = work.panels[p].KeysOfTile(tile.key_tile.j);
      if (keys == 0) continue;
      VisitTile<kLevel>(call, layout, rule, tile, results.wants_histogram(),
                        keys, work.panels[p], work,
                        work.q + p * layout.head_dim * kTileColumns,
                        work.o + p * layout.columns * kTileColumns);
    }
  });
  for (size_t p = 0; p < panels; ++p) {
    TransposePanel(work.o + p * layout.columns * kTileColumns, layout.columns,
                   work.rows);
    FinishLanes(call, results, work.panels[p], 0, work.panels[p].count,
                {work.rows, layout.columns, layout.first_feature},
                work.histogram);
  }
  if (task.last) results.ClearPadding();
}

void RunBlock(const ForwardCall& call, const Layout& layout,
              const PackedHead& head, const BlockTask& task,
              const PackedTiles& packed, std::span<double> partial,
              const Work& work) {
  switch (call.walk) {
    case WalkLevel::kNone:
      return RunBlock<WalkLevel::kNone>(call, layout, head, task, packed,
                                        partial, work);
    case WalkLevel::kCore:
      return RunBlock<WalkLevel::kCore>(call, layout, head, task, packed,
                                        partial, work);
    case WalkLevel::kKept:
      return RunBlock<WalkLevel::kKept>(call, layout, head, task, packed,
                                        partial, work);
    case WalkLevel::kFull:
      return RunBlock<WalkLevel::kFull>(call, layout, head, task, packed,
                                        partial, work);
  }
}

// Multiplications of the longest sequences; many are kAlone or more.
int64_t ProductsOf(const ForwardCall& call) {
  const AttentionProblem& p = call.problem;
  constexpr int64_t kMany = ThreadPool::kAlone;
  if (std::max({p.batch, p.heads, p.query_len, p.key_len}) >= kMany / 4) {
    return kMany;
  }
  const int64_t rows = std::min(p.batch * p.heads * p.query_len, kMany);
  return rows * p.key_len * (call.head_dim + call.value_dim);
}

void PackGroup(Context& context, const ForwardCall& call, const Layout& layout,
               const ForwardGroup& group, const PackedTiles& packed) {
  // A task packs a few tiles of one head.
  constexpr int64_t kTilesOfTask = 16;
  struct Piece {
    const PackedHead* head;
    int64_t begin;
  };
  std::pmr::vector<Piece> pieces(call.memory());
  pieces.reserve(group.heads.size());
  for (const PackedHead& head : group.heads) {
    for (int64_t t = 0; t < head.tiles; t += kTilesOfTask) {
      pieces.push_back({&head, t});
    }
  }
  context.pool().ParallelFor(
      pieces.size(),
      [&](int64_t task, int) {
        const Piece& piece = pieces[task];
        const int64_t end =
            std::min(piece.begin + kTilesOfTask, piece.head->tiles);
        for (int64_t t = piece.begin; t < end; ++t) {
          PackTile(call, layout, *piece.head, t, packed);
        }
      },
      ProductsOf(call));
}

}  // namespace

void RunForward(Context& context, const ForwardCall& call) {
  const Layout layout(call);
  const int64_t tile_bytes = layout.tile_floats() * sizeof(float);
  const auto groups = PlanForward(call, tile_bytes);
  int64_t tiles = 0, queries = 0;
  size_t partials = 0;
  for (const ForwardGroup& group : groups) {
    tiles = std::max(tiles, group.tiles);
    partials = std::max(partials, group.tasks.size());
    for (const BlockTask& task : group.tasks) {
      queries = std::max(queries, task.count);
    }
  }
  const size_t panels = (queries + kTileColumns - 1) / kTileColumns;
  const size_t work_bytes = Work(layout, panels, nullptr).bytes;
  Workspace& workspace = context.workspace();
  Scratch packed_memory = workspace.Take(tiles * tile_bytes);
  Scratch finite_memory = workspace.Take(tiles);
  Scratch work_memory = workspace.Take(context.threads() * work_bytes);
  const size_t partial_size = WantsSums(call) ? PartialSize(call) : 0;
  Scratch partial_memory = workspace.TakeArray<double>(partials * partial_size);
  const PackedTiles packed = {packed_memory.Raw<float>(),
                              finite_memory.Raw<uint8_t>()};
  double* sums = partial_memory.Raw<double>();
  for (const ForwardGroup& group : groups) {
    PackGroup(context, call, layout, group, packed);
    context.pool().ParallelFor(
        group.tasks.size(),
        [&](int64_t index, int worker) {
          const BlockTask& task = group.tasks[index];
          const Work work(layout, panels,
                          work_memory.Raw<char>() + worker * work_bytes);
          RunBlock(call, layout, group.heads[task.packed], task, packed,
                   {sums + task.partial * partial_size, partial_size}, work);
        },
        ProductsOf(call));
    for (const HeadSum& head : group.sums) {
      if (partial_size == 0) break;
      WriteSums(call, head,
                {sums + head.begin * partial_size,
                 (head.end - head.begin) * partial_size});
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headwise {

HWY_EXPORT(RunForward);

void ForwardF32(Context& context, const AttentionProblem& problem,
                const AttentionArgs& args) {
  if (OneQueryF32(context, problem, args)) return;
  ScratchMemory memory(context.workspace());
  const ForwardCall call(problem, args, memory.resource());
  if (problem.query_len <= kFewQueries) return DecodeF32(context, call);
  HWY_DYNAMIC_DISPATCH(RunForward)(context, call);
}

}  // namespace headwise
#endif  // HWY_ONCE
