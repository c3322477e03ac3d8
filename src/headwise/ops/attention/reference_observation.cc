// Statistics of a row of A by their definitions. Door: reference_row.h.
#include <algorithm>
#include <cmath>

#include "headwise/ops/attention/reference_row.h"
#include "headwise/tensor/element.h"

namespace headwise {
namespace {

// −ln A_ij, and 0 where A_ij is 0: lim p ln p = 0.
double Surprise(const ReferenceRow& row, int64_t j) {
  return row.probability[j] == 0 ? 0 : row.lse - row.score[j];
}

void FillNan(ReferenceStatistics& s) {
  s.entropy = s.varentropy = s.max_probability = s.kept_max = NAN;
  s.distance = s.missing = s.sum_squares = NAN;
  for (auto* list : {&s.histogram, &s.feature_mass, &s.label_mass}) {
    std::fill(list->begin(), list->end(), NAN);
  }
}

}  // namespace

double Entropy(const ReferenceRow& row) {
  double entropy = 0;
  for (size_t j = 0; j < row.probability.size(); ++j) {
    entropy += row.probability[j] * Surprise(row, j);
  }
  return entropy;
}

ReferenceObserver::ReferenceObserver(const Observation& observation,
                                     const ReferenceHead& head,
                                     int64_t sequence_index)
    : o_(observation),
      head_(head),
      sequence_index_(sequence_index),
      sums_(kSumColumns),
      histogram_(kHistogramBuckets),
      feature_mass_(o_.key_features ? o_.key_features.shape[2] : 0),
      label_mass_(o_.key_labels ? o_.key_labels.shape[0] : 0) {}

void ReferenceObserver::AddRow(int64_t i, const ReferenceRow& row) {
  const ReferenceStatistics s = Measure(i, row);
  Store(i, s);
  Sum(i, row, s);
}

ReferenceStatistics ReferenceObserver::Measure(int64_t i,
                                               const ReferenceRow& row) const {
  ReferenceStatistics s;
  s.histogram.assign(kHistogramBuckets, 0);
  s.feature_mass.assign(feature_mass_.size(), 0);
  s.label_mass.assign(label_mass_.size(), 0);
  if (row.empty()) return s;
  if (!row.finite()) {
    FillNan(s);
    return s;
  }
  const Sequence& at = head_.sequence();
  s.entropy = Entropy(row);
  s.missing = row.missing;
  // Where the sink took the mass there is no surprise.
  s.varentropy = row.missing * s.entropy * s.entropy;
  for (int64_t j = 0; j < at.keys; ++j) {
    if (!head_.SeesKey(row, j)) continue;
    const double p = row.probability[j];
    const int64_t key_row = at.key_begin + j;
    const double deviation = Surprise(row, j) - s.entropy;
    s.varentropy += p * deviation * deviation;
    s.sum_squares += p * p;
    s.distance += p * static_cast<double>(std::abs(row.position - j));
    s.histogram[HistogramBucket(row.position - j)] += p;
    if (s.argmax < 0 || p > s.max_probability) {
      s.max_probability = p;
      s.argmax = j;
    }
    const bool kept =
        !o_.excluded_keys || Read(o_.excluded_keys, at.batch, key_row) == 0;
    if (kept && (s.kept_argmax < 0 || p > s.kept_max)) {
      s.kept_max = p;
      s.kept_argmax = j;
    }
    for (size_t c = 0; c < s.feature_mass.size(); ++c) {
      s.feature_mass[c] += p * Read(o_.key_features, at.batch, key_row, c);
    }
    for (size_t l = 0; l < s.label_mass.size(); ++l) {
      const double label =
          Read(o_.query_labels, l, at.batch, at.query_begin + i);
      const bool match =
          label != -1 && label == Read(o_.key_labels, l, at.batch, key_row);
      if (match) s.label_mass[l] += p;
    }
  }
  return s;
}

void ReferenceObserver::Store(int64_t i, const ReferenceStatistics& s) const {
  const RowStatistics& rows = o_.rows;
  const int64_t b = head_.sequence().batch;
  const int64_t h = head_.head();
  const int64_t at = head_.sequence().query_begin + i;
  Write(rows.entropy, s.entropy, b, h, at);
  Write(rows.max_probability, s.max_probability, b, h, at);
  Write(rows.argmax, static_cast<double>(s.argmax), b, h, at);
  Write(rows.distance, s.distance, b, h, at);
  Write(rows.missing, s.missing, b, h, at);
  Write(rows.varentropy, s.varentropy, b, h, at);
  Write(rows.sum_squares, s.sum_squares, b, h, at);
  Write(rows.kept_max, s.kept_max, b, h, at);
  Write(rows.kept_argmax, static_cast<double>(s.kept_argmax), b, h, at);
  for (size_t c = 0; c < s.histogram.size(); ++c) {
    Write(rows.histogram, s.histogram[c], b, h, at, c);
  }
  for (size_t c = 0; c < s.feature_mass.size(); ++c) {
    Write(rows.feature_mass, s.feature_mass[c], b, h, at, c);
  }
  for (size_t l = 0; l < s.label_mass.size(); ++l) {
    Write(rows.label_mass, s.label_mass[l], b, h, at, l);
  }
}

void ReferenceObserver::Sum(int64_t i, const ReferenceRow& row,
                            const ReferenceStatistics& s) {
  if (!row.finite()) sums_[kSumNonFinite] += 1;
  if (!row.finite() || row.empty()) return;
  const Sequence& at = head_.sequence();
  const double w = o_.query_weights
                       ? Read(o_.query_weights, at.batch, at.query_begin + i)
                       : 1.0;
  const double visible = static_cast<double>(row.visible);
  sums_[kSumCount] += w;
  sums_[kSumEntropy] += w * s.entropy;
  if (row.visible > 1) {
    sums_[kSumNormalizedEntropy] += w * s.entropy / std::log(visible);
  }
  sums_[kSumMaxProbability] += w * s.max_probability;
  sums_[kSumDistance] += w * s.distance;
  sums_[kSumArgmaxDistance] +=
      w * static_cast<double>(std::abs(row.position - s.argmax));
  sums_[kSumVisible] += w * visible;
  sums_[kSumMissing] += w * s.missing;
  if (o_.statistics == Statistics::kFull) {
    sums_[kSumVarentropy] += w * s.varentropy;
    sums_[kSumSquares] += w * s.sum_squares;
    sums_[kSumKeptMax] += w * s.kept_max;
  }
  AddScaled(histogram_, w, s.histogram);
  AddScaled(feature_mass_, w, s.feature_mass);
  AddScaled(label_mass_, w, s.label_mass);
}

void ReferenceObserver::WriteSums() const {
  auto write = [&](const TensorView& view, const std::vector<double>& values) {
    for (size_t c = 0; c < values.size(); ++c) {
      Write(view, values[c], sequence_index_, head_.head(), c);
    }
  };
  write(o_.summed.sums, sums_);
  write(o_.summed.histogram, histogram_);
  write(o_.summed.feature_mass, feature_mass_);
  write(o_.summed.label_mass, label_mass_);
}

}  // namespace headwise
