#include "headwise/ops/attention/testing/dense_oracle.h"

#include <algorithm>
#include <cmath>

#include "headwise/tensor/element.h"

namespace headwise {
namespace {

// "Query i stands at p and sees key j when p − before ≤ j ≤ p + after, or
// j < sinks and j ≤ p + after."
bool Visible(const AttentionMask& mask, __int128 p, __int128 j) {
  const bool in_band = p - mask.before <= j && j <= p + mask.after;
  return in_band || (j < mask.sinks && j <= p + mask.after);
}

double Score(const AttentionProblem& problem, const AttentionArgs& args,
             const DenseHead& at, int64_t i, int64_t j) {
  const int64_t kv_head = at.head * problem.kv_heads / problem.heads;
  double dot = 0;
  for (int64_t d = 0; d < problem.head_dim; ++d) {
    dot += Read(args.q, at.batch, at.query_begin + i, at.head, d) *
           Read(args.k, at.batch, at.key_begin + j, kv_head, d);
  }
  const double dim = static_cast<double>(problem.head_dim);
  double z = problem.scale == 0 ? dot / std::sqrt(dim) : dot * problem.scale;
  if (problem.soft_cap != 0) {
    z = problem.soft_cap * std::tanh(z / problem.soft_cap);
  }
  const int64_t distance = j - (i + at.offset);
  if (problem.bias == AttentionBias::kAlibi) {
    const double slope = Read(args.alibi_slopes, at.head);
    z -= slope * std::abs(static_cast<double>(distance));
  }
  if (problem.bias == AttentionBias::kRelative) {
    const int64_t r = problem.relative_reach;
    const int64_t column = distance < -r  ? 0
                           : distance > r ? 2 * r
                                          : distance + r;
    z += Read(args.relative_table, at.head, column);
  }
  return z;
}

// Where the sequence lies, its counted queries and keys.
void Place(const AttentionProblem& problem, const AttentionArgs& args,
           DenseHead& head, int64_t& queries, int64_t& keys) {
  const int64_t b = head.sequence;
  auto value = [&](const ConstTensorView& view, int64_t i) {
    return static_cast<int64_t>(Read(view, i));
  };
  queries = problem.query_len;
  keys = problem.key_len;
  head.batch = b;
  if (problem.packed) {
    head.batch = 0;
    head.query_begin = value(args.query_starts, b);
    head.key_begin = value(args.key_starts, b);
    queries = value(args.query_starts, b + 1) - head.query_begin;
    keys = value(args.key_starts, b + 1) - head.key_begin;
  }
  if (args.query_lengths) queries = value(args.query_lengths, b);
  if (args.key_lengths) keys = value(args.key_lengths, b);
  head.offset = args.query_offsets ? value(args.query_offsets, b)
                                   : problem.mask.query_offset;
}

DenseHead MakeHead(const AttentionProblem& problem, const AttentionArgs& args,
                   int64_t sequence, int64_t h) {
  DenseHead head;
  head.sequence = sequence;
  head.head = h;
  int64_t queries = 0;
  int64_t keys = 0;
  Place(problem, args, head, queries, keys);
  const int64_t kv_head = h * problem.kv_heads / problem.heads;
  const int64_t width = args.v.shape[3];
  head.a.assign(queries, std::vector<double>(keys));
  head.seen.assign(queries, std::vector<bool>(keys));
  head.o.assign(queries, std::vector<double>(width));
  for (int64_t i = 0; i < queries; ++i) {
    // Scores are small here, so that exp needs no shift.
    double sum = 0;
    bool sees = false;
    for (int64_t j = 0; j < keys; ++j) {
      head.seen[i][j] = Visible(problem.mask, i + head.offset, j);
      if (!head.seen[i][j]) continue;
      sees = true;
      head.a[i][j] = std::exp(Score(problem, args, head, i, j));
      sum += head.a[i][j];
    }
    // "LSE_i = ln(Σ_j exp z_ij + exp s_h)", but of rows that see a key.
    if (sees && args.sink_logits) sum += std::exp(Read(args.sink_logits, h));
    head.lse.push_back(std::log(sum));
    for (int64_t j = 0; j < keys; ++j) {
      if (!head.seen[i][j]) continue;
      head.a[i][j] /= sum;
      for (int64_t e = 0; e < width; ++e) {
        head.o[i][e] += head.a[i][j] * Read(args.v, head.batch,
                                            head.key_begin + j, kv_head, e);
      }
    }
  }
  return head;
}

// "bucket center holds p − j = 0, center + b holds 2^(b−1) ≤ p − j < 2^b, …;
// the outermost buckets hold all that is further."
bool InBucket(int64_t distance, int64_t column) {
  const int64_t b = column - kHistogramCenter;
  if (b == 0) return distance == 0;
  const double d = static_cast<double>(b > 0 ? distance : -distance);
  const double low = std::exp2(static_cast<double>(std::abs(b)) - 1);
  const bool outermost = std::abs(b) == kHistogramCenter;
  return d >= low && (outermost || d < 2 * low);
}

}  // namespace

std::vector<DenseHead> DenseAttention(const AttentionProblem& problem,
                                      const AttentionArgs& args) {
  std::vector<DenseHead> heads;
  for (int64_t b = 0; b < problem.batch; ++b) {
    for (int32_t h = 0; h < problem.heads; ++h) {
      if (args.active_heads.Has(h)) {
        heads.push_back(MakeHead(problem, args, b, h));
      }
    }
  }
  return heads;
}

double DenseStatistic(const DenseHead& head, const Observation& o,
                      const std::string& name, int64_t i, int64_t column) {
  const std::vector<double>& a = head.a[i];
  const bool kept_only = name.starts_with("kept");
  double sum = 0;
  double sum_of_squares = 0;  // of −ln A
  int64_t best = -1;
  for (size_t j = 0; j < a.size(); ++j) {
    if (!head.seen[i][j]) continue;
    const int64_t key = head.key_begin + static_cast<int64_t>(j);
    const int64_t distance = i + head.offset - static_cast<int64_t>(j);
    const bool excluded = kept_only && o.excluded_keys &&
                          Read(o.excluded_keys, head.batch, key) != 0;
    if (!excluded && (best < 0 || a[j] > a[best])) {
      best = static_cast<int64_t>(j);
    }
    if (name == "entropy" || name == "varentropy") {
      sum -= a[j] * std::log(a[j]);
      sum_of_squares += a[j] * std::log(a[j]) * std::log(a[j]);
    } else if (name == "missing") {
      sum -= a[j];
    } else if (name == "distance") {
      sum += a[j] * std::abs(static_cast<double>(distance));
    } else if (name == "sum_squares") {
      sum += a[j] * a[j];
    } else if (name == "histogram") {
      sum += InBucket(distance, column) ? a[j] : 0;
    } else if (name == "feature_mass") {
      sum += a[j] * Read(o.key_features, head.batch, key, column);
    } else if (name == "label_mass") {
      const double mine =
          Read(o.query_labels, column, head.batch, head.query_begin + i);
      const double its = Read(o.key_labels, column, head.batch, key);
      sum += mine == its && mine != -1 ? a[j] : 0;
    }
  }
  if (name.ends_with("argmax")) return static_cast<double>(best);
  if (name.ends_with("max") || name == "max_probability") {
    return best < 0 ? 0 : a[best];
  }
  if (name == "missing") return best < 0 ? 0 : 1 + sum;
  return name == "varentropy" ? sum_of_squares - sum * sum : sum;
}

double DenseLoss(const AttentionProblem& problem, const AttentionArgs& args,
                 const ConstTensorView& dout, const ConstTensorView& dentropy) {
  double loss = 0;
  for (const DenseHead& head : DenseAttention(problem, args)) {
    const int64_t b = head.batch;
    const int64_t h = head.head;
    for (size_t i = 0; i < head.a.size(); ++i) {
      const int64_t at = head.query_begin + static_cast<int64_t>(i);
      const double g = args.gates ? Read(args.gates, b, at, h) : 1.0;
      for (size_t e = 0; e < head.o[i].size(); ++e) {
        const double mu =
            args.replacement ? Read(args.replacement, b, at, h, e) : 0.0;
        loss += Read(dout, b, at, h, e) * (g * head.o[i][e] + (1 - g) * mu);
      }
      if (dentropy) {
        loss += Read(dentropy, b, h, at) *
                DenseStatistic(head, {}, "entropy", static_cast<int64_t>(i), 0);
      }
    }
  }
  return loss;
}

}  // namespace headwise
