// Dense rows, the largest keys of a row, listed pairs and windows: one query
// and head at a time. Door: second_pass.h.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/backend/cpu/workspace.h"
#include "headwise/ops/attention/cpu/query_row.h"
#include "headwise/ops/attention/cpu/second_pass.h"
#include "headwise/ops/attention/cpu/views.h"

namespace headwise {
namespace {

// run(row index, head, row, worker) for every chosen row and active head.
template <typename Run>
void ForEachRow(Context& context, const AttentionProblem& problem,
                const AttentionArgs& args, std::span<const RowRef> rows,
                const Run& run) {
  // Rows of a task: one alone may be a single product.
  constexpr int64_t kRows = 16;
  const std::vector<int32_t> heads = ActiveHeads(problem, args);
  const int64_t width = problem.head_dim;
  Scratch scratch =
      context.workspace().TakeArray<float>(context.threads() * width);
  const int64_t count = static_cast<int64_t>(rows.size());
  const int64_t blocks = (count + kRows - 1) / kRows;
  const int64_t tasks = static_cast<int64_t>(heads.size()) * blocks;
  // Heads outside: a head's keys then stay in L2 from row to row.
  context.pool().ParallelFor(tasks, [&](int64_t task, int worker) {
    const int32_t head = heads[task / blocks];
    float* q = scratch.Raw<float>() + worker * width;
    const int64_t begin = task % blocks * kRows;
    const int64_t end = std::min(begin + kRows, count);
    QueryRow row;
    for (int64_t r = begin; r < end; ++r) {
      if (r == begin || rows[r].sequence != rows[r - 1].sequence) {
        row = MakeQueryRow(problem, args, rows[r], head, q);
      } else {
        MoveQueryRow(problem, args, rows[r].query, head, q, row);
      }
      run(r, head, row, worker);
    }
  });
}

// Puts the visible keys of a row in front of `order`, the `k` largest first
// and in order; returns how many of those there are.
int64_t Largest(const QueryRow& row, const float* p, int64_t k,
                int32_t* order) {
  if (!std::isfinite(row.lse)) return 0;  // has no order
  const KeyRange range = row.Visible();
  int64_t seen = 0;
  for (int64_t j = 0; j < range.sinks; ++j) order[seen++] = j;
  for (int64_t j = range.begin; j < range.end; ++j) order[seen++] = j;
  const int64_t found = std::min(k, seen);
  std::partial_sort(
      order, order + found, order + seen,
      [p](int32_t a, int32_t b) { return p[a] != p[b] ? p[a] > p[b] : a < b; });
  return found;
}

// [begin, end) of each of `cells` cells over `size` elements, at least one
// element each so that a picture may also be enlarged.
struct Cell {
  int64_t begin = 0;
  int64_t end = 0;
};
std::vector<Cell> Cells(int64_t size, int64_t cells) {
  const auto edge = [&](int64_t index) {
    return static_cast<int64_t>(static_cast<__int128>(index) * size / cells);
  };
  std::vector<Cell> result(cells);
  for (int64_t c = 0; c < cells; ++c) {
    result[c] = {edge(c), std::max(edge(c) + 1, edge(c + 1))};
  }
  return result;
}

}  // namespace

void RowsF32(Context& context, const AttentionProblem& problem,
             const AttentionArgs& args, std::span<const RowRef> rows,
             TensorView probabilities) {
  ForEachRow(context, problem, args, rows,
             [&](int64_t r, int64_t head, const QueryRow& row, int) {
               RowProbabilities(row, 0, problem.key_len,
                                At(probabilities, r, head, 0));
             });
}

void TopKF32(Context& context, const AttentionProblem& problem,
             const AttentionArgs& args, std::span<const RowRef> rows,
             TensorView keys, TensorView probabilities) {
  const int64_t n = problem.key_len;
  const int64_t k = keys.shape[2];
  Scratch dense = context.workspace().TakeArray<float>(context.threads() * n);
  Scratch orders =
      context.workspace().TakeArray<int32_t>(context.threads() * n);
  ForEachRow(context, problem, args, rows,
             [&](int64_t r, int64_t head, const QueryRow& row, int worker) {
               float* p = dense.Raw<float>() + worker * n;
               int32_t* order = orders.Raw<int32_t>() + worker * n;
               RowProbabilities(row, 0, n, p);
               const int64_t found = Largest(row, p, k, order);
               int32_t* key = keys.Raw<int32_t>() + r * keys.stride[0] +
                              head * keys.stride[1];
               float* to = At(probabilities, r, head, 0);
               for (int64_t c = 0; c < k; ++c) {
                 key[c] = c < found ? order[c] : -1;
                 to[c] = c < found ? p[order[c]] : 0;
               }
             });
}

void PairsF32(Context& context, const AttentionProblem& problem,
              const AttentionArgs& args, const PairList& pairs,
              ConstTensorView argmax, TensorView mass, TensorView is_argmax) {
  ForEachRow(context, problem, args, pairs.rows,
             [&](int64_t r, int64_t head, const QueryRow& row, int) {
               const int64_t begin = pairs.offsets[r];
               const auto keys =
                   pairs.keys.subspan(begin, pairs.offsets[r + 1] - begin);
               ListedProbabilities(row, keys, At(mass, head, begin, 0));
               if (!is_argmax) return;
               const Sequence& sequence = row.rule.sequence;
               const int32_t best =
                   *(argmax.Raw<int32_t>() + sequence.batch * argmax.stride[0] +
                     head * argmax.stride[1] +
                     (sequence.query_begin + row.query) * argmax.stride[2]);
               uint8_t* to = is_argmax.Raw<uint8_t>() +
                             head * is_argmax.stride[0] + begin;
               for (size_t n = 0; n < keys.size(); ++n) to[n] = keys[n] == best;
             });
}

void WindowF32(Context& context, const AttentionProblem& problem,
               const AttentionArgs& args, const WindowRequest& window,
               TensorView maximum, TensorView mean) {
  const TensorView& picture = maximum ? maximum : mean;
  const int64_t keys = window.key_end - window.key_begin;
  const std::vector<Cell> rows =
      Cells(window.query_end - window.query_begin, picture.shape[0]);
  const std::vector<Cell> columns = Cells(keys, picture.shape[1]);
  const int64_t width = picture.shape[1];
  // Per worker: the scaled query, its probabilities, and a row of cells.
  const int64_t floats = problem.head_dim + keys + width;
  const int threads = context.threads();
  Scratch scratch = context.workspace().TakeArray<float>(threads * floats);
  Scratch sums = context.workspace().TakeArray<double>(threads * width);
  context.pool().ParallelFor(picture.shape[0], [&](int64_t r, int worker) {
    float* q = scratch.Raw<float>() + worker * floats;
    float* p = q + problem.head_dim;
    float* largest = p + keys;
    double* total = sums.Raw<double>() + worker * width;
    std::fill(largest, largest + width, 0.0f);
    std::fill(total, total + width, 0.0);
    for (int64_t i = rows[r].begin; i < rows[r].end; ++i) {
      const RowRef ref{window.sequence, window.query_begin + i};
      RowProbabilities(MakeQueryRow(problem, args, ref, window.head, q),
                       window.key_begin, window.key_end, p);
      for (int64_t c = 0; c < width; ++c) {
        for (int64_t j = columns[c].begin; j < columns[c].end; ++j) {
          largest[c] = std::max(largest[c], p[j]);
          total[c] += p[j];
        }
      }
    }
    for (int64_t c = 0; c < width; ++c) {
      const double cells = static_cast<double>(
          (rows[r].end - rows[r].begin) * (columns[c].end - columns[c].begin));
      if (maximum) *At(maximum, r, c, 0) = largest[c];
      if (mean) *At(mean, r, c, 0) = static_cast<float>(total[c] / cells);
    }
  });
}

}  // namespace headwise
