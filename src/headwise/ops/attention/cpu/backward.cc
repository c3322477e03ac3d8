// cpu.f32's backward pass: prepares the rows, then runs the plan's tasks.
// Doors: backward.h; the arithmetic is in backward_block-inl.h.
#include "headwise/ops/attention/cpu/backward.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/backend/cpu/workspace.h"
#include "headwise/ops/attention/cpu/backward_plan.h"
#include "headwise/ops/attention/cpu/turns.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "headwise/ops/attention/cpu/backward.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.
#include "headwise/ops/attention/cpu/backward_block-inl.h"
#include "headwise/ops/attention/cpu/score_tile-inl.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headwise {
namespace HWY_NAMESPACE {
namespace {

class Backward {
 public:
  Backward(Context& context, const AttentionProblem& problem,
           const AttentionArgs& args, const AttentionGrads& grads)
      : context_(context),
        problem_(problem),
        args_(args),
        grads_(grads),
        plan_(MakePlan(problem, args, kBlockQueries)),
        views_(SizesOf(problem, args)),
        dq_turns_(grads.dq ? problem.heads * plan_.blocks : 0),
        table_turns_(problem.heads) {
    sizes_.d = problem.head_dim;
    sizes_.e = ValueDim(problem);
    sizes_.d_tiles = RoundUp(sizes_.d, kTileRows);
    sizes_.e_tiles = RoundUp(sizes_.e, kTileRows);
    sizes_.chunk = plan_.chunk_keys;
    BackwardBuffers counted;
    floats_ = sizes_.Layout(nullptr, counted);
    const size_t threads = context.threads();
    Workspace& workspace = context.workspace();
    scratch_ = workspace.TakeArray<float>(threads * floats_);
    const size_t rows = views_.batch * problem.heads * views_.queries;
    delta_ = workspace.TakeArray<float>(rows);
    if (grads.dentropy) entropy_ = workspace.TakeArray<float>(rows);
    if (args.sink_logits) {
      sink_parts_ = workspace.TakeArray<double>(PrepareTasks());
    }
    if (grads.drelative_table) {
      table_cells_ = 2 * problem.relative_reach + 1;
      tables_ = workspace.TakeArray<double>(threads * table_cells_);
    }
  }

  void Run() {
    const int64_t heads = static_cast<int64_t>(plan_.heads.size());
    constexpr int64_t kBlock = kBlockQueries;
    const int64_t blocks = LongestBlocks();
    context_.pool().ParallelFor(PrepareTasks(), [&](int64_t task, int worker) {
      const int64_t sequence = task / heads / blocks;
      const int64_t head = plan_.heads[task % heads];
      const int64_t first = task / heads % blocks * kBlock;
      Prepare(sequence, head, first, worker);
      if (args_.sink_logits) {
        sink_parts_.Raw<double>()[task] = TakeSink(sequence, head, first);
      }
    });
    if (grads_.dsink_logits) AddSinkGradients();
    context_.pool().ParallelFor(
        static_cast<int64_t>(plan_.tasks.size()),
        [&](int64_t task, int worker) { RunTask(plan_.tasks[task], worker); });
  }

 private:
  // Blocks of the longest sequence's queries.
  int64_t LongestBlocks() const {
    constexpr int64_t kBlock = kBlockQueries;
    return (problem_.query_len + kBlock - 1) / kBlock;
  }
  int64_t PrepareTasks() const {
    return problem_.batch * LongestBlocks() *
           static_cast<int64_t>(plan_.heads.size());
  }

  // Where a row's δ and H are kept: as in lse, dense.
  int64_t RowIndex(const Sequence& s, int64_t head, int64_t i) const {
    return (s.batch * problem_.heads + head) * views_.queries + s.query_begin +
           i;
  }
  BackwardBuffers BuffersOf(int worker) const {
    BackwardBuffers buffers;
    sizes_.Layout(scratch_.Raw<float>() + worker * floats_, buffers);
    return buffers;
  }

  // Rows [first, first + kBlockQueries) of a sequence and head: zeroes dq,
  // writes dgates, and keeps δ and H.
  void Prepare(int64_t sequence, int64_t head, int64_t first, int worker) {
    const Sequence s = SequenceOf(problem_, args_, sequence);
    constexpr int64_t kBlock = kBlockQueries;
    const int64_t end = std::min(s.query_rows, first + kBlock);
    for (int64_t i = first; i < end; ++i) {
      const int64_t at = s.query_begin + i;
      if (grads_.dq) {
        float* dq = At(grads_.dq, s.batch, at, head);
        std::fill(dq, dq + problem_.head_dim, 0.0f);
      }
      float slope = 0;   // ⟨dout, O⟩
      float closed = 0;  // ⟨dout, μ⟩
      if (i < s.queries) {
        const TensorView& o = args_.gates ? args_.ungated : args_.out;
        const float* dout = At(grads_.dout, s.batch, at, head);
        slope = Dot(dout, At(o, s.batch, at, head), sizes_.e);
        if (args_.replacement && grads_.dgates) {
          closed =
              Dot(dout, At(args_.replacement, s.batch, at, head), sizes_.e);
        }
      }
      if (grads_.dgates) {
        *At(grads_.dgates, s.batch, at, head) = slope - closed;
      }
      delta_.Raw<float>()[RowIndex(s, head, i)] =
          slope * (args_.gates ? *At(args_.gates, s.batch, at, head) : 1.0f);
    }
    const int64_t count = std::min(s.queries, end) - first;
    if (grads_.dentropy && count > 0) {
      const BackwardBuffers b = BuffersOf(worker);
      PackQueries(RuleOf(problem_, args_, s, head), head, first, count, b);
      Entropies(RuleOf(problem_, args_, s, head), head, first, count, b);
    }
  }

  // What the sink took of each row of a prepared block goes to the row's H,
  // with which it stands in every dz. Returns the block's part of dsink_logits.
  double TakeSink(int64_t sequence, int64_t head, int64_t first) const {
    const Sequence s = SequenceOf(problem_, args_, sequence);
    constexpr int64_t kBlock = kBlockQueries;
    const int64_t end = std::min(s.queries, first + kBlock);
    const double logit =
        args_.sink_logits.Raw<float>()[head * args_.sink_logits.stride[0]];
    double sum = 0;
    for (int64_t i = first; i < end; ++i) {
      const int64_t at = s.query_begin + i;
      const float lse = *At(args_.lse, s.batch, head, at);
      if (lse == kMinusInfinity || logit == -INFINITY) continue;
      const double missing = std::exp(logit - lse);
      double slope = delta_.Raw<float>()[RowIndex(s, head, i)];
      if (grads_.dentropy) {
        float& entropy = entropy_.Raw<float>()[RowIndex(s, head, i)];
        slope +=
            *At(grads_.dentropy, s.batch, head, at) * (entropy + missing - 1);
        entropy += static_cast<float>(missing);
      }
      sum -= missing * slope;
    }
    return sum;
  }

  // Blocks in their order, whoever prepared them.
  void AddSinkGradients() const {
    const int64_t heads = static_cast<int64_t>(plan_.heads.size());
    for (int64_t h = 0; h < heads; ++h) {
      double sum = 0;
      for (int64_t task = h; task < PrepareTasks(); task += heads) {
        sum += sink_parts_.Raw<double>()[task];
      }
      float& to =
          grads_.dsink_logits
              .Raw<float>()[plan_.heads[h] * grads_.dsink_logits.stride[0]];
      to = static_cast<float>(to + sum);
    }
  }

  // Entropies of a block: −Σ p ln p, streaming over its keys.
  HWY_NOINLINE void Entropies(const ScoreRule& rule, int64_t head,
                              int64_t first, int64_t count,
                              const BackwardBuffers& b) {
    const F32 d;
    const Sequence& s = rule.sequence;
    HWY_ALIGN float sums[kBlockQueries * kLanes] = {};
    constexpr int64_t kPanel = kTileColumns;
    for (int64_t j = 0; j < s.keys; j += kPanel) {
      const TileRange rows = RowsSeeing(rule, first, count, j);
      if (rows.empty()) continue;
      PackAcross(KeyRows(args_.k, s, j, KvHead(head)),
                 std::min(kPanel, s.keys - j), sizes_.d, kTileColumns, 1.0f,
                 b.k_across);
      ScoreTile(rule, first, count, rows, j, b.q_across, b.k_across, sizes_.d,
                b.s, nullptr);
      for (size_t r = rows.begin; r < rows.end; ++r) {
        const VF shift = hn::Set(d, b.shift[r]);
        VF sum = hn::Load(d, sums + r * kLanes);
        for (size_t c = 0; c < kTileColumns; c += kLanes) {
          const VF score = hn::LoadU(d, b.s + r * kTileColumns + c);
          const VF p = Probability(score, shift);
          // 0 · −∞ must stay 0.
          const VF term = hn::IfThenZeroElse(hn::Eq(p, hn::Zero(d)),
                                             hn::Mul(p, hn::Sub(score, shift)));
          sum = hn::Sub(sum, term);
        }
        hn::Store(sum, d, sums + r * kLanes);
      }
    }
    for (int64_t r = 0; r < count; ++r) {
      float sum = 0;
      for (size_t c = 0; c < kLanes; ++c) sum += sums[r * kLanes + c];
      entropy_.Raw<float>()[RowIndex(s, head, first + r)] = kLn2 * sum;
    }
  }

  int64_t KvHead(int64_t head) const {
    return head / (problem_.heads / problem_.kv_heads);
  }
  static HeadRows KeyRows(const ConstTensorView& x, const Sequence& s,
                          int64_t j, int64_t kv_head) {
    return {At(x, s.batch, s.key_begin + j, kv_head), x.stride[1]};
  }

  // Fills the query side of the buffers for [first, first + count).
  void PackQueries(const ScoreRule& rule, int64_t head, int64_t first,
                   int64_t count, BackwardBuffers b) const {
    const Sequence& s = rule.sequence;
    PackAcross(QueryRows(args_.q, s, first, head), count, sizes_.d, kTileRows,
               rule.factor, b.q_across);
    constexpr size_t kAll = kBlockQueries;
    for (float* row : {b.gate, b.delta, b.dentropy, b.entropy}) {
      std::fill(row, row + kAll, 0.0f);
    }
    std::fill(b.shift, b.shift + kAll, -kMinusInfinity);
    for (int64_t r = 0; r < count; ++r) {
      const int64_t at = s.query_begin + first + r;
      b.shift[r] = RowShift(*At(args_.lse, s.batch, head, at));
      b.gate[r] = args_.gates ? *At(args_.gates, s.batch, at, head) : 1.0f;
      b.delta[r] = delta_.Raw<float>()[RowIndex(s, head, first + r)];
      if (grads_.dentropy) {
        b.dentropy[r] = *At(grads_.dentropy, s.batch, head, at);
        b.entropy[r] = entropy_.Raw<float>()[RowIndex(s, head, first + r)];
      }
    }
  }
  static HeadRows QueryRows(const ConstTensorView& x, const Sequence& s,
                            int64_t i, int64_t head) {
    return {At(x, s.batch, s.query_begin + i, head), x.stride[1]};
  }

  // The rest of the query side, for the products with dout and over queries.
  void PackForProducts(const Sequence& s, int64_t head, int64_t first,
                       int64_t count, BackwardBuffers& b) const {
    const HeadRows dout = QueryRows(grads_.dout, s, first, head);
    PackAcross(dout, count, sizes_.e, kTileRows, 1.0f, b.dout_across);
    PackAlong(dout, count, sizes_.e, kBlockQueries, b.dout_along);
    PackAlong(QueryRows(args_.q, s, first, head), count, sizes_.d,
              kBlockQueries, b.q_along);
    b.q_finite = AllFinite(b.q_along, kBlockQueries * sizes_.d_tiles);
    b.dout_finite = AllFinite(b.dout_along, kBlockQueries * sizes_.e_tiles);
  }

  // The rows of dq that this block will be added to, far apart in memory, on
  // their way into L2.
  void PrefetchRows(const Sequence& s, int64_t head, int64_t first,
                    int64_t count) const {
    if (!grads_.dq) return;
    constexpr size_t kLine = 64 / sizeof(float);
    for (int64_t r = 0; r < count; ++r) {
      const float* row =
          At(grads_.dq, s.batch, s.query_begin + first + r, head);
      for (size_t n = 0; n < sizes_.d; n += kLine) hwy::Prefetch(row + n);
    }
  }

  void PackKeys(const Sequence& s, int64_t kv_head, int64_t j, int64_t j_end,
                BackwardBuffers& b) const {
    const size_t count = j_end - j;
    const HeadRows k = KeyRows(args_.k, s, j, kv_head);
    PackAcross(k, count, sizes_.d, kTileColumns, 1.0f, b.k_across);
    PackAlong(k, count, sizes_.d, sizes_.chunk, b.k_along);
    PackAcross(KeyRows(args_.v, s, j, kv_head), count, sizes_.e, kTileColumns,
               1.0f, b.v_across);
    b.k_finite = AllFinite(b.k_along, sizes_.chunk * sizes_.d_tiles);
  }

  void RunTask(const BackwardTask& task, int worker) {
    const Sequence s = SequenceOf(problem_, args_, task.sequence);
    BackwardBuffers b = BuffersOf(worker);
    const int64_t j = task.chunk * plan_.chunk_keys;
    const int64_t j_rows = std::min(s.key_rows, j + plan_.chunk_keys);
    const int64_t j_end = std::max(j, std::min(s.keys, j_rows));
    std::fill(b.dk, b.dk + sizes_.chunk * sizes_.d_tiles, 0.0f);
    std::fill(b.dv, b.dv + sizes_.chunk * sizes_.e_tiles, 0.0f);
    if (j < j_end) PackKeys(s, task.kv_head, j, j_end, b);
    for (int64_t head : plan_.heads) {
      if (KvHead(head) == task.kv_head) {
        RunHead(task, s, head, j, j_end, worker, b);
        WriteReceived(s, head, j, j_rows, b);
      }
    }
    if (grads_.dk) {
      WriteRows(b.dk, sizes_.d, static_cast<float>(Scale(problem_)), j_rows - j,
                KeyRowsOf(grads_.dk, s, j, task.kv_head), grads_.dk.stride[1],
                b);
    }
    if (grads_.dv) {
      WriteRows(b.dv, sizes_.e, 1.0f, j_rows - j,
                KeyRowsOf(grads_.dv, s, j, task.kv_head), grads_.dv.stride[1],
                b);
    }
  }
  static float* KeyRowsOf(const TensorView& x, const Sequence& s, int64_t j,
                          int64_t kv_head) {
    return At(x, s.batch, s.key_begin + j, kv_head);
  }

  // All queries of one head against a chunk.
  void RunHead(const BackwardTask& task, const Sequence& s, int64_t head,
               int64_t j, int64_t j_end, int worker, BackwardBuffers& b) {
    const ScoreRule rule = NarrowRuleOf(problem_, args_, s, head);
    BackwardWanted wanted{
        static_cast<bool>(grads_.dq),       static_cast<bool>(grads_.dk),
        static_cast<bool>(grads_.dv),       static_cast<bool>(grads_.dentropy),
        static_cast<bool>(grads_.received), nullptr};
    if (grads_.drelative_table) {
      wanted.table = tables_.Raw<double>() + worker * table_cells_;
      std::fill(wanted.table, wanted.table + table_cells_, 0.0);
    }
    std::fill(b.received, b.received + sizes_.chunk, 0.0);
    constexpr int64_t kBlock = kBlockQueries;
    for (int64_t first = 0; first < s.queries && j < j_end; first += kBlock) {
      const int64_t count = std::min(kBlock, s.queries - first);
      const ChunkRange chunks = ChunksOf(rule, first, count, plan_.chunk_keys);
      if (!chunks.contains(task.chunk)) continue;
      PackQueries(rule, head, first, count, b);
      PackForProducts(s, head, first, count, b);
      PrefetchRows(s, head, first, count);
      BackwardBlock(rule, sizes_, wanted, b, first, count, j, j_end);
      if (!grads_.dq) continue;
      const size_t sum = plan_.Sum(task.sequence, head, first);
      dq_turns_.Wait(sum, chunks.Before(task.chunk));
      AddRows(b.dq, count, At(grads_.dq, s.batch, s.query_begin + first, head),
              b);
      dq_turns_.Next(sum);
    }
    if (wanted.table == nullptr) return;
    table_turns_.Wait(head, task.order);
    float* to = At(grads_.drelative_table, head, 0, 0);
    for (int64_t n = 0; n < table_cells_; ++n) {
      to[n] = static_cast<float>(to[n] + wanted.table[n]);
    }
    table_turns_.Next(head);
  }

  // Panels [⌈count / kTileColumns⌉, lines, kTileColumns] turned into rows and
  // handed to put(row, values).
  template <typename Put>
  void ForEachRow(const float* panels, size_t lines, int64_t count,
                  const BackwardBuffers& b, const Put& put) const {
    const size_t width = RoundUp(lines, kTileRows);
    constexpr int64_t kPanel = kTileColumns;
    for (int64_t n = 0; n < count; n += kPanel) {
      PackPanel({panels + n * width, kPanel, 1}, width, kTileColumns, width,
                1.0f, b.rows);
      for (int64_t r = 0; r < std::min(kPanel, count - n); ++r) {
        put(n + r, b.rows + r * width);
      }
    }
  }
  void AddRows(const float* panels, int64_t count, float* to,
               const BackwardBuffers& b) const {
    const float scale = static_cast<float>(Scale(problem_));
    const int64_t stride = grads_.dq.stride[1];
    ForEachRow(panels, sizes_.d, count, b, [&](int64_t r, const float* row) {
      float* HWY_RESTRICT dq = to + r * stride;
      for (size_t n = 0; n < sizes_.d; ++n) dq[n] += scale * row[n];
    });
  }
  void WriteRows(const float* panels, size_t lines, float scale, int64_t count,
                 float* to, int64_t stride, const BackwardBuffers& b) const {
    ForEachRow(panels, lines, count, b, [&](int64_t r, const float* row) {
      float* HWY_RESTRICT out = to + r * stride;
      for (size_t n = 0; n < lines; ++n) out[n] = scale * row[n];
    });
  }

  void WriteReceived(const Sequence& s, int64_t head, int64_t j, int64_t j_end,
                     const BackwardBuffers& b) const {
    if (!grads_.received) return;
    float* to = At(grads_.received, s.batch, head, s.key_begin);
    for (int64_t n = j; n < j_end; ++n) {
      to[n * grads_.received.stride[2]] = static_cast<float>(b.received[n - j]);
    }
  }

  Context& context_;
  const AttentionProblem& problem_;
  const AttentionArgs& args_;
  const AttentionGrads& grads_;
  const BackwardPlan plan_;
  const ViewSizes views_;
  BackwardSizes sizes_;
  size_t floats_ = 0;        // of a worker's buffers
  int64_t table_cells_ = 0;  // 2R + 1
  Scratch scratch_;
  Scratch delta_;       // [B, H, M]
  Scratch entropy_;     // [B, H, M]
  Scratch tables_;      // [threads, 2R + 1] f64
  Scratch sink_parts_;  // [tasks of Prepare] f64
  Turns dq_turns_;
  Turns table_turns_;
};

}  // namespace

void RunBackward(Context& context, const AttentionProblem& problem,
                 const AttentionArgs& args, const AttentionGrads& grads) {
  Backward(context, problem, args, grads).Run();
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headwise {

HWY_EXPORT(RunBackward);

void BackwardF32(Context& context, const AttentionProblem& problem,
                 const AttentionArgs& args, const AttentionGrads& grads) {
  HWY_DYNAMIC_DISPATCH(RunBackward)(context, problem, args, grads);
}

}  // namespace headwise
#endif  // HWY_ONCE
