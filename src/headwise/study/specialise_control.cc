// Controls of specialisation that can fail and can pass. Door: specialise.h.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/ops/loss/loss.h"
#include "headwise/runtime/gates.h"
#include "headwise/study/specialise.h"
#include "headwise/study/support/head_scores.h"
#include "headwise/study/support/novels.h"
#include "headwise/study/support/story.h"

namespace headwise {
namespace {

constexpr size_t kClosed = 2;      // heads of a role that are closed
constexpr int kChoices = 20;       // of as many others
constexpr int64_t kRepeated = 32;  // sequences of random repeats
constexpr int kDealings = 1000;

double Squares(const RoleScores& scores) {
  double sum = 0;
  for (const auto& head : scores) {
    sum += std::inner_product(head.begin(), head.end(), head.begin(), 0.0);
  }
  return sum;
}

// order: the head of `second` that stands beside each head of `first`.
double Cosine(const RoleScores& first, const RoleScores& second,
              const std::vector<size_t>& order) {
  double sum = 0;
  for (size_t h = 0; h < first.size(); ++h) {
    const std::vector<double>& other = second[order[h]];
    sum += std::inner_product(first[h].begin(), first[h].end(), other.begin(),
                              0.0);
  }
  const double scale = std::sqrt(Squares(first) * Squares(second));
  return scale > 0 ? sum / scale : 0;
}

}  // namespace

double AgreementBeyondLayer(const RoleScores& first, const RoleScores& second,
                            const std::vector<int64_t>& layers, uint64_t seed) {
  std::vector<size_t> order(first.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const double own = Cosine(first, second, order);
  Rng rng(seed);
  std::vector<double> dealt;
  for (int i = 0; i < kDealings; ++i) {
    for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
      while (end < order.size() && layers[end] == layers[begin]) ++end;
      for (size_t h = end - 1; h > begin; --h) {
        std::swap(order[h], order[begin + rng.Below(h - begin + 1)]);
      }
    }
    dealt.push_back(Cosine(first, second, order));
  }
  std::sort(dealt.begin(), dealt.end());
  return own - dealt[dealt.size() * 975 / 1000];
}

double PlantedAgreement(int64_t specialists, uint64_t seed) {
  constexpr size_t kLayers = 6, kHeads = 8, kRoles = 7;
  constexpr double kScore = 0.6, kNoise = 0.02;
  Rng rng(seed);
  RoleScores halves[2];
  std::vector<int64_t> layers;
  for (size_t h = 0; h < kLayers * kHeads; ++h) {
    layers.push_back(static_cast<int64_t>(h / kHeads));
    for (RoleScores& half : halves) {
      std::vector<double> row(kRoles);
      for (double& score : row) score = std::abs(kNoise * rng.Normal());
      half.push_back(std::move(row));
    }
    if (specialists < 0) {
      for (RoleScores& half : halves) half[h][h / kHeads] += kScore;
    }
  }
  std::vector<size_t> places(layers.size());
  std::iota(places.begin(), places.end(), size_t{0});
  for (int64_t i = 0; i < specialists; ++i) {
    const auto at = static_cast<size_t>(i);
    std::swap(places[at], places[at + rng.Below(places.size() - at)]);
    for (RoleScores& half : halves) half[places[at]][at % kRoles] += kScore;
  }
  return AgreementBeyondLayer(halves[0], halves[1], layers, seed);
}

// Rise of the loss on random repeats without the heads that score best on them
// less the mean rise without as many others.
double RiseOverOthers(Context& context, const Model& model,
                      const Language& language, const Profile& profile,
                      uint64_t seed) {
  // Only what can be told from the block before it is to be predicted.
  const MadeBatches repeats(kHeldOutSeed, [vocabulary = language.vocabulary()](
                                              Rng& rng) {
    MadeSequence made = NextToken(MakeRepeats(rng, vocabulary));
    const auto again =
        std::find(made.ids.begin() + 2, made.ids.end(), made.ids[1]);
    std::fill_n(made.targets.begin(), again - made.ids.begin(), kIgnoreTarget);
    return made;
  });
  std::vector<size_t> order(profile.heads.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return profile.Get(kInductionOnRepeats, a).mean >
           profile.Get(kInductionOnRepeats, b).mean;
  });
  const auto loss = [&](std::span<const size_t> closed) {
    std::vector<HeadRef> these;
    for (const size_t h : closed) these.push_back(profile.heads[h]);
    ClosedHeads hooks(model, these);
    return LossWith(context, model, repeats, kRepeated, &hooks);
  };
  const std::span<size_t> all(order);
  const double without = loss(all.first(kClosed));
  const std::span<size_t> others = all.subspan(kClosed);
  Rng rng(seed);
  double sum = 0;
  for (int choice = 0; choice < kChoices; ++choice) {
    for (size_t i = 0; i < kClosed; ++i) {
      std::swap(others[i], others[i + rng.Below(others.size() - i)]);
    }
    sum += loss(others.first(kClosed));
  }
  return without - sum / kChoices;
}

}  // namespace headwise
