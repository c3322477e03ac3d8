// Writing the forward's results. Door: results.h.
#include "headwise/ops/attention/cpu/results.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "headwise/ops/attention/cpu/views.h"

namespace headwise {
namespace {

template <typename T>
void Put(const TensorView& view, int64_t a, int64_t b, int64_t c, double x) {
  if (!view) return;
  view.Raw<T>()[a * view.stride[0] + b * view.stride[1] + c * view.stride[2]] =
      static_cast<T>(x);
}

// [a, b, c, :] of a view, or null.
float* Line(const TensorView& view, int64_t a, int64_t b, int64_t c) {
  return view ? At(view, a, b, c) : nullptr;
}

}  // namespace

void RowResult::SetNonFinite() {
  entropy = varentropy = max_probability = kept_max = NAN;
  distance = missing = sum_squares = inverse = NAN;
  argmax = kept_argmax = -1;
}

// With P over the keys, L its LSE and σ = 1 / (1 + exp(s − L)): A = σP, its LSE
// is L − ln σ, and the surprise of a key grows by −ln σ.
void RowResult::TakeSink(double logit) {
  const double above = logit - lse;
  const double small = std::exp(-std::abs(above));
  // ln(1 + exp(above)) without overflow.
  const double surprise = std::max(above, 0.0) + std::log1p(small);
  const double share = std::exp(-surprise);
  missing = (above > 0 ? 1.0 : small) / (1 + small);
  lse += surprise;
  inverse *= share;
  const double mean = entropy + surprise;
  varentropy = share * (varentropy + missing * mean * mean);
  entropy = share * mean;
  max_probability *= share;
  kept_max *= share;
  distance *= share;
  sum_squares *= share * share;
  if (finite && std::isfinite(lse)) return;
  finite = false;
  SetNonFinite();
}

ResultWriter::ResultWriter(const ForwardCall& call, const Sequence& sequence,
                           int64_t head, std::span<double> partial)
    : call_(call),
      sequence_(sequence),
      head_(head),
      partial_(partial),
      wants_histogram_(call.statistics == Statistics::kFull &&
                       (call.observation->rows.histogram ||
                        call.observation->summed.histogram)) {
  std::fill(partial_.begin(), partial_.end(), 0.0);
  if (const ConstTensorView& sinks = call.args.sink_logits) {
    sink_logit_ = sinks.Raw<float>()[head * sinks.stride[0]];
  }
}

int64_t ResultWriter::FirstKept(const KeyRange& range) const {
  const ConstTensorView& excluded = call_.observation->excluded_keys;
  if (!excluded) return range.sinks > 0 ? 0 : range.begin;
  const uint8_t* keys = excluded.Raw<uint8_t>() +
                        sequence_.batch * excluded.stride[0] +
                        sequence_.key_begin;
  const auto find = [&](int64_t begin, int64_t end) -> int64_t {
    const void* at =
        begin < end ? std::memchr(keys + begin, 0, end - begin) : nullptr;
    return at == nullptr ? -1 : static_cast<const uint8_t*>(at) - keys;
  };
  const int64_t sink = find(0, range.sinks);
  return sink >= 0 ? sink : find(range.begin, range.end);
}

void ResultWriter::Write(const RowResult& row) {
  if (row.empty || sink_logit_ == -INFINITY) return WriteAll(row);
  RowResult taken = row;
  taken.TakeSink(sink_logit_);
  // Nobody summed what it comes from.
  if (call_.statistics != Statistics::kFull) taken.varentropy = 0;
  WriteAll(taken);
}

void ResultWriter::WriteAll(const RowResult& row) {
  WriteOutput(row);
  Put<float>(call_.args.lse, sequence_.batch, head_,
             sequence_.query_begin + row.query, row.lse);
  if (call_.observation == nullptr) return;
  WriteRow(row);
  if (!partial_.empty()) AddToSums(row);
}

// out = g·O + (1 − g)·μ
void ResultWriter::WriteOutput(const RowResult& row) {
  const AttentionArgs& args = call_.args;
  const int64_t b = sequence_.batch;
  const int64_t at = sequence_.query_begin + row.query;
  float* out = At(args.out, b, at, head_);
  float* ungated = Line(args.ungated, b, at, head_);
  const float inverse = static_cast<float>(row.inverse);
  const float gate = args.gates ? *At(args.gates, b, at, head_) : 1.0f;
  const float* mu =
      args.replacement ? At(args.replacement, b, at, head_) : nullptr;
  for (int64_t e = 0; e < call_.value_dim; ++e) {
    const float o = row.empty ? 0.0f : row.values[e] * inverse;
    if (ungated != nullptr) ungated[e] = o;
    out[e] = gate * o;
    if (mu != nullptr) out[e] += (1.0f - gate) * mu[e];
  }
}

void ResultWriter::WriteRow(const RowResult& row) {
  const RowStatistics& rows = call_.observation->rows;
  const int64_t b = sequence_.batch;
  const int64_t at = sequence_.query_begin + row.query;
  Put<float>(rows.entropy, b, head_, at, row.entropy);
  Put<float>(rows.max_probability, b, head_, at, row.max_probability);
  Put<int32_t>(rows.argmax, b, head_, at, static_cast<double>(row.argmax));
  Put<float>(rows.distance, b, head_, at, row.distance);
  Put<float>(rows.missing, b, head_, at, row.missing);
  Put<float>(rows.varentropy, b, head_, at, row.varentropy);
  Put<float>(rows.sum_squares, b, head_, at, row.sum_squares);
  Put<float>(rows.kept_max, b, head_, at, row.kept_max);
  Put<int32_t>(rows.kept_argmax, b, head_, at,
               static_cast<double>(row.kept_argmax));
  const float inverse = static_cast<float>(row.inverse);
  if (float* line = Line(rows.histogram, b, head_, at)) {
    std::fill_n(line, kHistogramBuckets, row.finite ? 0.0f : NAN);
    for (int c = row.histogram_begin; !row.empty && c < row.histogram_end;
         ++c) {
      line[c] = row.histogram[c * row.histogram_stride] * inverse;
    }
  }
  if (float* line = Line(rows.feature_mass, b, head_, at)) {
    for (int64_t c = 0; c < call_.features; ++c) {
      line[c] = row.empty ? 0.0f : row.features[c] * inverse;
    }
  }
  if (float* line = Line(rows.label_mass, b, head_, at)) {
    for (int64_t c = 0; c < call_.labels; ++c) {
      line[c] = row.empty ? 0.0f : row.label_mass[c] * inverse;
    }
  }
}

void ResultWriter::AddToSums(const RowResult& row) {
  double* sums = partial_.data();
  if (!row.finite) sums[kSumNonFinite] += 1;
  if (!row.finite || row.empty) return;
  const ConstTensorView& weights = call_.observation->query_weights;
  const int64_t at = sequence_.query_begin + row.query;
  const double w =
      weights ? weights.Raw<float>()[sequence_.batch * weights.stride[0] +
                                     at * weights.stride[1]]
              : 1.0;
  if (call_.observation->summed.sums) AddColumns(row, w);
  const double factor = w * row.inverse;
  double* histogram = sums + kSumColumns;
  if (row.histogram != nullptr) {
    for (int c = row.histogram_begin; c < row.histogram_end; ++c) {
      histogram[c] += factor * row.histogram[c * row.histogram_stride];
    }
  }
  double* features = histogram + kHistogramBuckets;
  for (int64_t c = 0; c < call_.features; ++c) {
    features[c] += factor * row.features[c];
  }
  double* labels = features + call_.features;
  for (int64_t c = 0; c < call_.labels; ++c) {
    labels[c] += factor * row.label_mass[c];
  }
}

void ResultWriter::AddColumns(const RowResult& row, double w) {
  double* sums = partial_.data();
  const double visible = static_cast<double>(row.visible);
  sums[kSumCount] += w;
  sums[kSumEntropy] += w * row.entropy;
  if (row.visible > 1) {
    sums[kSumNormalizedEntropy] += w * row.entropy / std::log(visible);
  }
  sums[kSumMaxProbability] += w * row.max_probability;
  sums[kSumDistance] += w * row.distance;
  sums[kSumArgmaxDistance] +=
      w * static_cast<double>(std::abs(row.position - row.argmax));
  sums[kSumVarentropy] += w * row.varentropy;
  sums[kSumSquares] += w * row.sum_squares;
  sums[kSumKeptMax] += w * row.kept_max;
  sums[kSumVisible] += w * visible;
  sums[kSumMissing] += w * row.missing;
}

void ResultWriter::ClearPadding() {
  RowResult row;
  for (row.query = sequence_.queries; row.query < sequence_.query_rows;
       ++row.query) {
    // No query stands here: nothing of μ either.
    const int64_t at = sequence_.query_begin + row.query;
    std::fill_n(At(call_.args.out, sequence_.batch, at, head_), call_.value_dim,
                0.0f);
    if (float* line = Line(call_.args.ungated, sequence_.batch, at, head_)) {
      std::fill_n(line, call_.value_dim, 0.0f);
    }
    Put<float>(call_.args.lse, sequence_.batch, head_, at, -INFINITY);
    if (call_.observation != nullptr) WriteRow(row);
  }
}

bool WantsSums(const ForwardCall& call) {
  if (call.observation == nullptr) return false;
  const SummedStatistics& summed = call.observation->summed;
  return summed.sums || summed.histogram || summed.feature_mass ||
         summed.label_mass;
}

void WriteSums(const ForwardCall& call, const HeadSum& head,
               std::span<const double> partials) {
  const int64_t size = PartialSize(call);
  std::vector<double> sums(size);
  for (size_t i = 0; i < partials.size(); ++i) sums[i % size] += partials[i];
  const double* from = sums.data();
  const auto write = [&](const TensorView& view, int64_t count) {
    for (int64_t c = 0; view && c < count; ++c) {
      Put<double>(view, head.sequence, head.head, c, from[c]);
    }
    from += count;
  };
  const SummedStatistics& summed = call.observation->summed;
  write(summed.sums, kSumColumns);
  write(summed.histogram, kHistogramBuckets);
  write(summed.feature_mass, call.features);
  write(summed.label_mass, call.labels);
}

}  // namespace headwise
