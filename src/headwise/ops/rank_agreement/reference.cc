// The reference: lists sorted on the host by the context's threads. Door:
// implementation.h.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/ops/embedding/embedding.h"
#include "headwise/ops/rank_agreement/implementation.h"
#include "headwise/ops/rank_agreement/ranks.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

Reason WhyNot(const RanksCall& call) {
  return call.device().is_cpu() ? "" : "reads host memory only";
}

// Of [width], in four sums that run side by side.
double Dot(const float* a, const float* b, int64_t width) {
  double sums[4] = {};
  int64_t d = 0;
  for (; d + 4 <= width; d += 4) {
    for (int64_t l = 0; l < 4; ++l) {
      sums[l] += static_cast<double>(a[d + l]) * b[d + l];
    }
  }
  for (; d < width; ++d) sums[0] += static_cast<double>(a[d]) * b[d];
  return sums[0] + sums[1] + sums[2] + sums[3];
}

class Cosines {
 public:
  Cosines(Context& context, ConstTensorView table)
      : context_(context), table_(table), width_(table.shape[1]) {}

  // cos(E[id], E[others[n]]), but for the length of E[id], which changes no
  // rank.
  std::vector<float> Of(const int32_t* id, std::span<const int32_t> others) {
    constexpr size_t kChunk = 4096;
    constexpr size_t kTask = 64;
    std::vector<float> row(width_);
    Gather({id, 1}, row.data());
    chunk_.resize(
        std::max(chunk_.size(), std::min(kChunk, others.size()) * width_));
    std::vector<float> cosines(others.size());
    for (size_t begin = 0; begin < others.size(); begin += kChunk) {
      const size_t count = std::min(kChunk, others.size() - begin);
      Gather(others.subspan(begin, count), chunk_.data());
      const auto cosine = [&](size_t n) {
        const float* other = chunk_.data() + n * width_;
        const double square = Dot(other, other, width_);
        const double dot = Dot(row.data(), other, width_);
        return square == 0 ? 0 : static_cast<float>(dot / std::sqrt(square));
      };
      context_.pool().ParallelFor(
          static_cast<int64_t>((count + kTask - 1) / kTask),
          [&](int64_t task, int) {
            const size_t first = static_cast<size_t>(task) * kTask;
            for (size_t n = first; n < std::min(first + kTask, count); ++n) {
              cosines[begin + n] = cosine(n);
            }
          });
    }
    return cosines;
  }

 private:
  void Gather(std::span<const int32_t> ids, float* to) {
    EmbeddingForward(context_, {},
                     {table_, ViewOf(ids),
                      View(to, {static_cast<int64_t>(ids.size()), width_})});
  }

  Context& context_;
  ConstTensorView table_;
  int64_t width_;
  std::vector<float> chunk_;  // memory for embeddings
};

void RunCosines(Context& context, const CosineRanksArgs& a) {
  Cosines cosines(context, a.table);
  const int32_t* starts = a.starts.Raw<int32_t>();
  const std::span others(a.others.Raw<int32_t>(),
                         static_cast<size_t>(a.others.size()));
  for (int64_t r = 0; r < a.ids.shape[0]; ++r) {
    const Ranks ranks = RanksOf(
        cosines.Of(a.ids.Raw<int32_t>() + r,
                   others.subspan(starts[r], starts[r + 1] - starts[r])));
    std::transform(ranks.centred.begin(), ranks.centred.end(),
                   a.ranks.Raw<float>() + starts[r],
                   [](double rank) { return static_cast<float>(rank); });
    a.norms.Raw<double>()[r] = ranks.norm;
  }
}

// Row r of head h.
void Agree(const RankAgreementArgs& a, int64_t r, int64_t h) {
  const int64_t heads = a.shares.shape[1], keys = a.shares.shape[2];
  const int64_t rankings = a.ranks.shape[0], entries = a.keys.shape[0];
  double* to = a.agreement.Raw<double>() + (r * heads + h) * rankings;
  const int64_t t = a.rows.Raw<int32_t>()[r];
  if (!std::isfinite(a.entropy.Raw<float>()[h * a.entropy.shape[2] + t])) {
    std::fill_n(to, rankings, std::numeric_limits<double>::quiet_NaN());
    return;
  }
  const int32_t begin = a.starts.Raw<int32_t>()[r];
  const int32_t end = a.starts.Raw<int32_t>()[r + 1];
  const float* p = a.shares.Raw<float>() + (r * heads + h) * keys;
  std::vector<float> shares;
  for (int32_t n = begin; n < end; ++n) {
    shares.push_back(std::max(p[a.keys.Raw<int32_t>()[n]],
                              std::numeric_limits<float>::min()));
  }
  const Ranks own = RanksOf(shares);
  for (int64_t k = 0; k < rankings; ++k) {
    const float* from = a.ranks.Raw<float>() + k * entries;
    to[k] =
        Correlation(own, {{from + begin, from + end},
                          a.norms.Raw<double>()[k * a.shares.shape[0] + r]});
  }
}

void Run(Context& context, const RanksCall& call) {
  if (call.cosines != nullptr) {
    RunCosines(context, *call.cosines);
    return;
  }
  const RankAgreementArgs& a = *call.agreement;
  context.pool().ParallelFor(a.shares.shape[1], [&](int64_t h, int) {
    for (int64_t r = 0; r < a.shares.shape[0]; ++r) Agree(a, r, h);
  });
}

}  // namespace

const Implementation<RanksCall> kRanksReference = {
    .name = "reference", .why_not = WhyNot, .run = Run};

}  // namespace headwise
