// Bhattacharyya Gram matrix of heads: for a block of queries and a panel of
// keys, one √p a head, then a product over the (query, key) pairs of that tile.
// Door: second_pass.h.
//
//   T [heads, pairs]  ──pack──▶  A [pairs, kTileRows] · w,  B [pairs, columns]
//   G [heads, heads] += AᵀB, tiles on and below the diagonal only
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/backend/cpu/workspace.h"
#include "headwise/ops/attention/cpu/second_pass.h"
#include "headwise/ops/attention/cpu/turns.h"
#include "headwise/ops/attention/cpu/views.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "headwise/ops/attention/cpu/second_pass_gram.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.
#include "headwise/ops/attention/cpu/score_tile-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headwise {
namespace HWY_NAMESPACE {
namespace {

constexpr int64_t kPanel = kTileColumns;

// One head of one source.
struct Head {
  const HeadSource* source;
  int64_t head;
  int64_t index;  // row of the Gram matrix
};

std::vector<Head> ListHeads(std::span<const HeadSource> sources) {
  std::vector<Head> heads;
  int64_t before = 0;
  for (const HeadSource& source : sources) {
    for (int32_t h : ActiveHeads(source.problem, source.args)) {
      heads.push_back({&source, h, before + h});
    }
    before += source.problem.heads;
  }
  return heads;
}

struct Sizes {
  size_t heads = 0;
  size_t rows = 0;     // heads in whole tiles
  size_t columns = 0;  // heads in whole panels
  size_t depth = 0;    // the largest head_dim
  size_t queries = 0;  // of a block
  size_t pairs = 0;    // of a block and a panel

  explicit Sizes(std::span<const Head> list) : heads(list.size()) {
    for (const Head& head : list) {
      depth = std::max<size_t>(depth, head.source->problem.head_dim);
    }
    rows = RoundUp(heads, kTileRows);
    columns = RoundUp(heads, kTileColumns);
    // T, A and B together stay in half a megabyte of L2.
    constexpr size_t kBytes = 512 << 10;
    const size_t fit =
        kBytes / (sizeof(float) * kTileColumns * (heads + rows + columns));
    queries = std::clamp(fit / kTileRows * kTileRows, kTileRows, kBlockQueries);
    pairs = queries * kTileColumns;
  }
};

// What a worker needs.
struct Buffers {
  float* q;      // [heads, queries / kTileRows, D, kTileRows]
  float* k;      // [D, kTileColumns]
  float* t;      // [heads, pairs]
  float* a;      // [rows / kTileRows, pairs, kTileRows]
  float* b;      // [columns / kTileColumns, pairs, kTileColumns]
  float* shift;  // [heads, queries]
  static size_t Floats(const Sizes& n) {
    return n.heads * n.queries * (n.depth + 1) + n.depth * kTileColumns +
           (n.heads + n.rows + n.columns) * n.pairs;
  }
  Buffers(float* base, const Sizes& n)
      : q(base),
        k(q + n.heads * n.queries * n.depth),
        t(k + n.depth * kTileColumns),
        a(t + n.heads * n.pairs),
        b(a + n.rows * n.pairs),
        shift(b + n.columns * n.pairs) {}
};

// The queries of one task.
struct Block {
  int64_t sequence;
  int64_t first;
  size_t count;
  float weight[kBlockQueries];  // 0 for rows that do not count
  bool counts[kBlockQueries];
};

// Packs the block's queries for all heads and finds the rows that count: those
// that see a key, and are finite, in every head.
void PrepareBlock(std::span<const Head> heads, const Sizes& sizes,
                  const ConstTensorView& weights, const Buffers& buffers,
                  Block& block) {
  std::fill(block.counts, block.counts + kBlockQueries, false);
  std::fill(block.counts, block.counts + block.count, true);
  for (size_t h = 0; h < heads.size(); ++h) {
    const auto& [problem, args] = *heads[h].source;
    const Sequence sequence = SequenceOf(problem, args, block.sequence);
    const int64_t row = sequence.query_begin + block.first;
    const ScoreRule rule = RuleOf(problem, args, sequence, heads[h].head);
    PackAcross(
        {At(args.q, sequence.batch, row, heads[h].head), args.q.stride[1]},
        block.count, problem.head_dim, kTileRows, rule.factor,
        buffers.q + h * sizes.queries * sizes.depth);
    for (size_t r = 0; r < block.count; ++r) {
      const int64_t at = row + static_cast<int64_t>(r);
      const float lse = *At(args.lse, sequence.batch, heads[h].head, at);
      buffers.shift[h * sizes.queries + r] = RowShift(lse);
      block.counts[r] &= std::isfinite(lse);
      block.weight[r] = weights ? *At(weights, sequence.batch, at, 0) : 1.0f;
    }
  }
}

// t: [pairs] = √p of one head, 0 in rows that do not count or see nothing.
HWY_NOINLINE void RootsOfTile(const Block& block, const float* shift,
                              TileRange rows, size_t queries,
                              float* HWY_RESTRICT t) {
  const F32 d;
  const VF half = hn::Set(d, 0.5f);
  for (size_t r = 0; r < queries; ++r) {
    float* row = t + r * kTileColumns;
    if (r < rows.begin || r >= rows.end || !block.counts[r]) {
      std::fill(row, row + kTileColumns, 0.0f);
      continue;
    }
    const VF by = hn::Set(d, shift[r]);
    for (size_t c = 0; c < kTileColumns; c += kLanes) {
      const VF x = hn::Mul(half, hn::Sub(hn::LoadU(d, row + c), by));
      hn::StoreU(Exp2(x), d, row + c);
    }
  }
}

// Fills T for one panel of keys; false when no query of the block sees it.
bool Roots(std::span<const Head> heads, const Sizes& sizes, const Block& block,
           int64_t j, const Buffers& buffers) {
  bool seen = false;
  for (size_t h = 0; h < heads.size(); ++h) {
    const auto& [problem, args] = *heads[h].source;
    const Sequence sequence = SequenceOf(problem, args, block.sequence);
    const ScoreRule rule = RuleOf(problem, args, sequence, heads[h].head);
    const TileRange rows = RowsSeeing(rule, block.first, block.count, j);
    if (rows.empty()) return false;  // one mask for all
    seen = true;
    const size_t depth = problem.head_dim;
    const int64_t kv_head = heads[h].head / (problem.heads / problem.kv_heads);
    PackAcross({At(args.k, sequence.batch, sequence.key_begin + j, kv_head),
                args.k.stride[1]},
               std::min(kPanel, sequence.keys - j), depth, kTileColumns, 1.0f,
               buffers.k);
    float* t = buffers.t + h * sizes.pairs;
    ScoreTile(rule, block.first, block.count, rows, j,
              buffers.q + h * sizes.queries * sizes.depth, buffers.k, depth, t,
              nullptr);
    RootsOfTile(block, buffers.shift + h * sizes.queries, rows, sizes.queries,
                t);
  }
  return seen;
}

void PackPairs(const Sizes& sizes, const Block& block, const Buffers& buffers) {
  const int64_t stride = static_cast<int64_t>(sizes.pairs);
  for (size_t h = 0; h < sizes.heads; h += kTileColumns) {
    PackPanel({buffers.t + h * sizes.pairs, stride, 1},
              std::min(kTileColumns, sizes.heads - h), sizes.pairs,
              kTileColumns, 1.0f, buffers.b + h * sizes.pairs);
  }
  for (size_t h = 0; h < sizes.heads; h += kTileRows) {
    for (size_t r = 0; r < sizes.queries; ++r) {
      const size_t pair = r * kTileColumns;
      PackPanel({buffers.t + h * sizes.pairs + pair, stride, 1},
                std::min(kTileRows, sizes.heads - h), kTileColumns, kTileRows,
                r < block.count ? block.weight[r] : 0.0f,
                buffers.a + h * sizes.pairs + pair * kTileRows);
    }
  }
}

// Pairs that are summed in f32 before they go into the double sums.
constexpr size_t kShortSum = 16 * kTileColumns;

// sums: [rows, columns] += AᵀB, in double so that long texts lose nothing.
HWY_NOINLINE void AddGram(const Sizes& sizes, const Buffers& buffers,
                          double* HWY_RESTRICT sums) {
  HWY_ALIGN float tile[kTileRows * kTileColumns];
  for (size_t c = 0; c < sizes.columns; c += kTileColumns) {
    const float* b = buffers.b + c * sizes.pairs;
    for (size_t r = 0; r < sizes.rows; r += kTileRows) {
      if (r + kTileRows <= c) continue;
      const float* a = buffers.a + r * sizes.pairs;
      for (size_t pair = 0; pair < sizes.pairs; pair += kShortSum) {
        Tile t = ZeroTile();
        AddProduct(t, a + pair * kTileRows, b + pair * kTileColumns,
                   std::min(kShortSum, sizes.pairs - pair));
        StoreTile(t, tile, kTileColumns);
        for (size_t i = 0; i < kTileRows; ++i) {
          double* to = sums + (r + i) * sizes.columns + c;
          for (size_t n = 0; n < kTileColumns; ++n) {
            to[n] += tile[i * kTileColumns + n];
          }
        }
      }
    }
  }
}

void GramTask(std::span<const Head> heads, const Sizes& sizes,
              const ConstTensorView& weights, const Buffers& buffers,
              Block& block, double* sums) {
  std::fill(sums, sums + sizes.rows * sizes.columns, 0.0);
  PrepareBlock(heads, sizes, weights, buffers, block);
  const HeadSource& first = *heads[0].source;
  const Sequence sequence =
      SequenceOf(first.problem, first.args, block.sequence);
  for (int64_t j = 0; j < sequence.keys; j += kPanel) {
    if (!Roots(heads, sizes, block, j, buffers)) continue;
    PackPairs(sizes, block, buffers);
    AddGram(sizes, buffers, sums);
  }
}

}  // namespace

void Gram(Context& context, std::span<const HeadSource> sources,
          const ConstTensorView& weights, const TensorView& gram) {
  const std::vector<Head> heads = ListHeads(sources);
  const Sizes sizes{std::span<const Head>(heads)};
  const AttentionProblem& problem = sources[0].problem;
  const size_t floats = Buffers::Floats(sizes);
  const size_t cells = sizes.rows * sizes.columns;
  const size_t threads = context.threads();
  Scratch scratch = context.workspace().TakeArray<float>(threads * floats);
  Scratch partial = context.workspace().TakeArray<double>(threads * cells);
  std::vector<double> total(cells);
  double weight = 0;
  Turns turns(1);
  const int64_t queries = static_cast<int64_t>(sizes.queries);
  const int64_t blocks = (problem.query_len + queries - 1) / queries;
  context.pool().ParallelFor(
      problem.batch * blocks, [&](int64_t task, int worker) {
        Block block;
        block.sequence = task / blocks;
        block.first = task % blocks * queries;
        const Sequence sequence =
            SequenceOf(problem, sources[0].args, block.sequence);
        const int64_t count =
            std::clamp<int64_t>(sequence.queries - block.first, 0, queries);
        block.count = count;
        double* sums = partial.Raw<double>() + worker * cells;
        if (count > 0) {
          GramTask(heads, sizes, weights,
                   Buffers(scratch.Raw<float>() + worker * floats, sizes),
                   block, sums);
        }
        turns.Wait(0, static_cast<int32_t>(task));
        for (size_t i = 0; count > 0 && i < cells; ++i) total[i] += sums[i];
        for (int64_t r = 0; r < count; ++r) {
          if (block.counts[r]) weight += block.weight[r];
        }
        turns.Next(0);
      });
  for (size_t a = 0; a < heads.size(); ++a) {
    for (size_t b = 0; b <= a; ++b) {
      const double value =
          weight == 0 ? 0 : total[a * sizes.columns + b] / weight;
      double* to = gram.Raw<double>();
      to[heads[a].index * gram.stride[0] + heads[b].index * gram.stride[1]] =
          to[heads[b].index * gram.stride[0] +
             heads[a].index * gram.stride[1]] = value;
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headwise {

HWY_EXPORT(Gram);

void HeadGramF32(Context& context, std::span<const HeadSource> sources,
                 ConstTensorView query_weights, TensorView gram) {
  HWY_DYNAMIC_DISPATCH(Gram)(context, sources, query_weights, gram);
}

}  // namespace headwise
#endif  // HWY_ONCE
