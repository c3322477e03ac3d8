// Gram matrices and divergences of rows. Door: pattern.h.
#include "headwise/heads/similarity/pattern.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/base/distribution.h"
#include "headwise/heads/profile/host_result.h"

namespace headwise {
namespace {

// Sampled rows are expanded a few at a time: at most this much memory.
constexpr int64_t kMostRowBytes = int64_t{64} << 20;

}  // namespace

std::vector<PatternGroup> PatternGroups(const Model& model) {
  std::vector<PatternGroup> groups;
  const std::vector<HeadRef> heads = AllHeads(model);
  for (size_t i = 0; i < heads.size(); ++i) {
    const AttentionMask& mask =
        AttentionLayers(model, heads[i].kind)[heads[i].layer]->config().mask;
    auto group =
        std::find_if(groups.begin(), groups.end(), [&](const PatternGroup& g) {
          return g.kind == heads[i].kind && g.mask == mask;
        });
    if (group == groups.end()) {
      group = groups.insert(groups.end(), {heads[i].kind, mask, {}, {}});
    }
    if (group->layers.empty() || group->layers.back() != heads[i].layer) {
      group->layers.push_back(heads[i].layer);
    }
    group->heads.push_back(i);
  }
  return groups;
}

PatternSums::PatternSums(const Model& model)
    : groups_(PatternGroups(model)), heads_(AllHeads(model).size()) {
  for (const PatternGroup& group : groups_) {
    const auto n = static_cast<int64_t>(group.heads.size());
    sums_.push_back({Matrix(n, n), Matrix(n, n), 0, 0});
  }
}

void PatternSums::Add(Context& context, const WindowRecord& record) {
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (record.rows(groups_[g].kind).count() == 0) continue;
    AddGram(context, record, groups_[g], sums_[g]);
    AddDivergence(context, record, groups_[g], sums_[g]);
    most_rows_ = std::max(most_rows_, sums_[g].rows);
    most_sampled_ = std::max(most_sampled_, sums_[g].sampled);
  }
}

void PatternSums::Pack(dist::Packer& to) const {
  for (const Sums& sums : sums_) {
    to.Put(sums.gram.values);
    to.Put(sums.divergence.values);
    to.Put(sums.rows);
    to.Put(sums.sampled);
  }
}

void PatternSums::MergePacked(dist::Unpacker& from) {
  for (Sums& ours : sums_) {
    const std::vector<double> gram = from.GetVector<double>();
    const std::vector<double> divergence = from.GetVector<double>();
    for (size_t i = 0; i < gram.size(); ++i) {
      ours.gram.values[i] += gram[i];
      ours.divergence.values[i] += divergence[i];
    }
    ours.rows += from.Get<double>();
    ours.sampled += from.Get<int64_t>();
    most_rows_ = std::max(most_rows_, ours.rows);
    most_sampled_ = std::max(most_sampled_, ours.sampled);
  }
}

void PatternSums::AddGram(Context& context, const WindowRecord& record,
                          const PatternGroup& group, Sums& sums) {
  std::vector<HeadSource> sources;
  for (const int64_t layer : group.layers) {
    sources.push_back(record.source(group.kind, layer));
    // Learned spans narrow the mask of a run, layer by layer; their bias does
    // the same.
    sources.back().problem.mask = group.mask;
  }
  const CountedRows& rows = record.rows(group.kind);
  const auto n = static_cast<int64_t>(group.heads.size());
  HostResult gram(context, DType::kF64, {n, n});
  Temp weights;
  HeadGram(context, sources,
           OnDevice(context,
                    View(rows.weights.data(),
                         {1, static_cast<int64_t>(rows.weights.size())}),
                    weights),
           gram.view());
  gram.Fetch(context);
  const auto count = static_cast<double>(rows.count());
  for (int64_t i = 0; i < n * n; ++i) {
    sums.gram.values[i] += count * gram.As<double>()[i];
  }
  sums.rows += count;
}

void PatternSums::AddDivergence(Context& context, const WindowRecord& record,
                                const PatternGroup& group, Sums& sums) {
  const std::vector<int64_t>& sampled = record.rows(group.kind).sampled;
  const int64_t keys =
      record.source(group.kind, group.layers[0]).problem.key_len;
  const auto n = static_cast<int64_t>(group.heads.size());
  const int64_t chunk = std::max<int64_t>(
      1, kMostRowBytes / (n * keys * static_cast<int64_t>(sizeof(double))));
  for (size_t first = 0; first < sampled.size(); first += chunk) {
    const int64_t count =
        std::min<int64_t>(chunk, static_cast<int64_t>(sampled.size() - first));
    std::vector<RowRef> rows;
    for (int64_t r = 0; r < count; ++r) rows.push_back({0, sampled[first + r]});
    // [heads, rows, keys], and the entropy of each row.
    std::vector<double> p(n * count * keys);
    std::vector<double> entropy(n * count);
    int64_t before = 0;
    for (const int64_t layer : group.layers) {
      const HeadSource& source = record.source(group.kind, layer);
      const int64_t heads = source.problem.heads;
      HostResult dense(context, DType::kF32, {count, heads, keys});
      AttentionRows(context, source.problem, source.args, rows, dense.view());
      dense.Fetch(context);
      for (int64_t r = 0; r < count; ++r) {
        for (int64_t h = 0; h < heads; ++h) {
          double* to = &p[((before + h) * count + r) * keys];
          std::copy_n(dense.As<float>() + (r * heads + h) * keys, keys, to);
          entropy[(before + h) * count + r] =
              Entropy({to, static_cast<size_t>(keys)});
        }
      }
      before += heads;
    }
    context.pool().ParallelFor(n, [&](int64_t a, int) {
      std::vector<double> mixture(keys);
      for (int64_t b = 0; b < a; ++b) {
        for (int64_t r = 0; r < count; ++r) {
          const double* pa = &p[(a * count + r) * keys];
          const double* pb = &p[(b * count + r) * keys];
          for (int64_t j = 0; j < keys; ++j) mixture[j] = (pa[j] + pb[j]) / 2;
          const double divergence =
              Entropy(mixture) -
              (entropy[a * count + r] + entropy[b * count + r]) / 2;
          sums.divergence(a, b) += std::max(0.0, divergence);
        }
        sums.divergence(b, a) = sums.divergence(a, b);
      }
    });
    sums.sampled += count;
  }
}

Matrix PatternSums::Means(Matrix Sums::*member, bool sampled) const {
  const auto n = static_cast<int64_t>(heads_);
  Matrix means(n, n);
  std::fill(means.values.begin(), means.values.end(),
            std::numeric_limits<double>::quiet_NaN());
  for (size_t g = 0; g < groups_.size(); ++g) {
    const std::vector<size_t>& heads = groups_[g].heads;
    const double count =
        sampled ? static_cast<double>(sums_[g].sampled) : sums_[g].rows;
    for (size_t a = 0; a < heads.size(); ++a) {
      for (size_t b = 0; b < heads.size(); ++b) {
        means(static_cast<int64_t>(heads[a]), static_cast<int64_t>(heads[b])) =
            (sums_[g].*member)(static_cast<int64_t>(a),
                               static_cast<int64_t>(b)) /
            count;
      }
    }
  }
  return means;
}

Matrix PatternSums::Bhattacharyya() const { return Means(&Sums::gram, false); }

Matrix PatternSums::JensenShannon() const {
  return Means(&Sums::divergence, true);
}

}  // namespace headwise
