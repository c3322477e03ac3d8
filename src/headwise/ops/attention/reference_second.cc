// The reference's second passes. Door: reference_passes.h.
#include <algorithm>
#include <numeric>
#include <vector>

#include "headwise/ops/attention/reference_passes.h"
#include "headwise/ops/attention/reference_row.h"
#include "headwise/tensor/element.h"

namespace headwise {
namespace {

// Calls visit(r, head, row) for every listed row of every active head. Rows of
// one sequence mostly stand together, so its keys are loaded once a run.
template <typename Visit>
void ForEachRow(const AttentionProblem& problem, const AttentionArgs& args,
                std::span<const RowRef> rows, Visit visit) {
  for (const int64_t h : HeadsOf(problem, args)) {
    for (size_t r = 0; r < rows.size();) {
      const int64_t sequence = rows[r].sequence;
      const ReferenceHead head(problem, args, sequence, h);
      for (; r < rows.size() && rows[r].sequence == sequence; ++r) {
        visit(static_cast<int64_t>(r), head, head.Row(rows[r].query));
      }
    }
  }
}

// First element of cell `index` when `size` elements make `cells` cells.
int64_t CellBegin(int64_t index, int64_t size, int64_t cells) {
  return static_cast<int64_t>(static_cast<__int128>(index) * size / cells);
}

// A cell holds at least one element, so that a picture may also be enlarged.
int64_t CellEnd(int64_t index, int64_t size, int64_t cells) {
  return std::max(CellBegin(index, size, cells) + 1,
                  CellBegin(index + 1, size, cells));
}

double Bhattacharyya(const ReferenceRow& a, const ReferenceRow& b) {
  double sum = 0;
  for (size_t j = 0; j < a.probability.size(); ++j) {
    sum += std::sqrt(a.probability[j] * b.probability[j]);
  }
  return sum;
}

}  // namespace

void ReferenceRows(Context&, const AttentionProblem& problem,
                   const AttentionArgs& args, std::span<const RowRef> rows,
                   TensorView probabilities) {
  ForEachRow(
      problem, args, rows,
      [&](int64_t r, const ReferenceHead& head, const ReferenceRow& row) {
        for (int64_t j = 0; j < problem.key_len; ++j) {
          const bool exists = j < head.sequence().keys;
          Write(probabilities, exists ? row.probability[j] : 0, r, head.head(),
                j);
        }
      });
}

void ReferenceTopK(Context&, const AttentionProblem& problem,
                   const AttentionArgs& args, std::span<const RowRef> rows,
                   TensorView keys, TensorView probabilities) {
  ForEachRow(
      problem, args, rows,
      [&](int64_t r, const ReferenceHead& head, const ReferenceRow& row) {
        std::vector<int64_t> order;
        for (int64_t j = 0; j < head.sequence().keys; ++j) {
          const bool ranked = row.finite() && !row.empty();
          if (ranked && head.SeesKey(row, j)) order.push_back(j);
        }
        std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
          return row.probability[a] > row.probability[b];
        });
        for (int64_t c = 0; c < keys.shape[2]; ++c) {
          const bool exists = c < static_cast<int64_t>(order.size());
          Write(keys, exists ? static_cast<double>(order[c]) : -1, r,
                head.head(), c);
          Write(probabilities, exists ? row.probability[order[c]] : 0, r,
                head.head(), c);
        }
      });
}

void ReferencePairs(Context&, const AttentionProblem& problem,
                    const AttentionArgs& args, const PairList& pairs,
                    ConstTensorView argmax, TensorView mass,
                    TensorView is_argmax) {
  ForEachRow(
      problem, args, pairs.rows,
      [&](int64_t r, const ReferenceHead& head, const ReferenceRow& row) {
        const Sequence& s = head.sequence();
        const int64_t h = head.head();
        for (int64_t n = pairs.offsets[r]; n < pairs.offsets[r + 1]; ++n) {
          const int64_t j = pairs.keys[n];
          Write(mass, j < s.keys ? row.probability[j] : 0, h, n);
          if (!is_argmax) continue;
          const int64_t at = s.query_begin + pairs.rows[r].query;
          Write(is_argmax, Read(argmax, s.batch, h, at) == j ? 1 : 0, h, n);
        }
      });
}

void ReferenceBand(Context&, const AttentionProblem& problem,
                   const AttentionArgs& args, int64_t before, int64_t after,
                   TensorView mass, TensorView first) {
  for (int64_t b = 0; b < problem.batch; ++b) {
    for (const int64_t h : HeadsOf(problem, args)) {
      const ReferenceHead head(problem, args, b, h);
      const Sequence& s = head.sequence();
      for (int64_t i = 0; i < s.query_rows; ++i) {
        const ReferenceRow row = i < s.queries ? head.Row(i) : ReferenceRow();
        for (int64_t c = 0; c < before + after + 1; ++c) {
          const int64_t j = i + s.offset - before + c;
          const bool exists = i < s.queries && j >= 0 && j < s.keys;
          Write(mass, exists ? row.probability[j] : 0, s.batch, h,
                s.query_begin + i, c);
        }
        const bool has_first = i < s.queries && s.keys > 0;
        Write(first, has_first ? row.probability[0] : 0, s.batch, h,
              s.query_begin + i);
      }
    }
  }
}

void ReferenceReceived(Context&, const AttentionProblem& problem,
                       const AttentionArgs& args, ConstTensorView query_weights,
                       TensorView received) {
  for (int64_t b = 0; b < problem.batch; ++b) {
    for (const int64_t h : HeadsOf(problem, args)) {
      const ReferenceHead head(problem, args, b, h);
      const Sequence& s = head.sequence();
      std::vector<double> sums(s.key_rows);
      for (int64_t i = 0; i < s.queries; ++i) {
        const ReferenceRow row = head.Row(i);
        if (!row.finite()) continue;
        const double w = query_weights
                             ? Read(query_weights, s.batch, s.query_begin + i)
                             : 1.0;
        for (int64_t j = 0; j < s.keys; ++j) sums[j] += w * row.probability[j];
      }
      for (int64_t j = 0; j < s.key_rows; ++j) {
        Write(received, sums[j], s.batch, h, s.key_begin + j);
      }
    }
  }
}

void ReferenceWindow(Context&, const AttentionProblem& problem,
                     const AttentionArgs& args, const WindowRequest& window,
                     TensorView maximum, TensorView mean) {
  const ReferenceHead head(problem, args, window.sequence, window.head);
  const TensorView& picture = maximum ? maximum : mean;
  const int64_t rows = picture.shape[0];
  const int64_t columns = picture.shape[1];
  const int64_t queries = window.query_end - window.query_begin;
  const int64_t keys = window.key_end - window.key_begin;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t i_begin = CellBegin(r, queries, rows);
    const int64_t i_end = CellEnd(r, queries, rows);
    std::vector<double> largest(columns);
    std::vector<double> total(columns);
    for (int64_t i = i_begin; i < i_end; ++i) {
      const ReferenceRow row = head.Row(window.query_begin + i);
      for (int64_t c = 0; c < columns; ++c) {
        for (int64_t j = CellBegin(c, keys, columns);
             j < CellEnd(c, keys, columns); ++j) {
          const int64_t key = window.key_begin + j;
          if (key >= head.sequence().keys) continue;
          largest[c] = std::max(largest[c], row.probability[key]);
          total[c] += row.probability[key];
        }
      }
    }
    for (int64_t c = 0; c < columns; ++c) {
      const double cells = static_cast<double>(
          (i_end - i_begin) *
          (CellEnd(c, keys, columns) - CellBegin(c, keys, columns)));
      Write(maximum, largest[c], r, c);
      Write(mean, total[c] / cells, r, c);
    }
  }
}

void ReferenceGram(Context&, std::span<const HeadSource> sources,
                   ConstTensorView query_weights, TensorView gram) {
  const AttentionProblem& first = sources[0].problem;
  // Row of the Gram matrix of each active head.
  std::vector<int64_t> index;
  int64_t heads_before = 0;
  for (const HeadSource& source : sources) {
    for (const int64_t h : HeadsOf(source.problem, source.args)) {
      index.push_back(heads_before + h);
    }
    heads_before += source.problem.heads;
  }
  std::vector<std::vector<double>> sums(index.size(),
                                        std::vector<double>(index.size()));
  double weight = 0;
  for (int64_t b = 0; b < first.batch; ++b) {
    std::vector<ReferenceHead> heads;
    for (const HeadSource& source : sources) {
      for (const int64_t h : HeadsOf(source.problem, source.args)) {
        heads.emplace_back(source.problem, source.args, b, h);
      }
    }
    const Sequence s = SequenceOf(first, sources[0].args, b);
    for (int64_t i = 0; i < s.queries; ++i) {
      std::vector<ReferenceRow> rows;
      for (const ReferenceHead& head : heads) rows.push_back(head.Row(i));
      const bool counts = std::all_of(
          rows.begin(), rows.end(),
          [](const ReferenceRow& row) { return row.finite() && !row.empty(); });
      if (!counts) continue;
      const double w =
          query_weights ? Read(query_weights, s.batch, s.query_begin + i) : 1.0;
      weight += w;
      for (size_t a = 0; a < rows.size(); ++a) {
        for (size_t c = 0; c < rows.size(); ++c) {
          sums[a][c] += w * Bhattacharyya(rows[a], rows[c]);
        }
      }
    }
  }
  for (size_t a = 0; a < index.size(); ++a) {
    for (size_t c = 0; c < index.size(); ++c) {
      Write(gram, weight == 0 ? 0 : sums[a][c] / weight, index[a], index[c]);
    }
  }
}

}  // namespace headwise
