// The choice of experts, its weights and their gradients. Door:
// expert_router.h.
#include "headwise/nn/expert_router.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "headwise/error.h"

namespace headwise {
namespace {

// Added to a sum of scores before it divides: changes no sum of f32 scores, and
// keeps one of zeros from making weights that are not numbers.
constexpr double kLeastScores = 1e-20;

using Scores = std::vector<double>;

int64_t ActiveOf(const ExpertChoice& choice) {
  return std::ssize(choice.chosen) / std::max<int64_t>(choice.tokens, 1);
}

template <typename T>
std::span<const T> RowAt(const std::vector<T>& matrix, int64_t row,
                         int64_t width) {
  return std::span<const T>(matrix).subspan(row * width, width);
}

// The scores of one token's logits.
void ScoreLogits(RouterScore kind, std::span<const float> logits,
                 Scores& scores) {
  scores.assign(logits.begin(), logits.end());
  if (kind == RouterScore::kSigmoid) {
    for (double& one : scores) one = 1 / (1 + std::exp(-one));
    return;
  }
  const double most = *std::max_element(scores.begin(), scores.end());
  for (double& one : scores) one = std::exp(one - most);
  const double sum = std::accumulate(scores.begin(), scores.end(), 0.0);
  for (double& one : scores) one /= sum;
}

// The gradient by a token's logits, of that by its scores.
void ScoreBackward(RouterScore kind, const Scores& scores,
                   const Scores& dscores, std::span<float> dlogits) {
  const bool softmax = kind == RouterScore::kSoftmax;
  const double mean = softmax ? std::inner_product(scores.begin(), scores.end(),
                                                   dscores.begin(), 0.0)
                              : 0.0;
  for (size_t e = 0; e < scores.size(); ++e) {
    const double slope =
        softmax ? dscores[e] - mean : dscores[e] * (1 - scores[e]);
    dlogits[e] = static_cast<float>(scores[e] * slope);
  }
}

// The numbers of the largest values, of equal ones the first, in ascending
// order, to `best`. Those that are not allowed are passed over; empty: all are.
// Where values are NaN it takes some of them.
void Largest(const Scores& values, const std::vector<char>& allowed,
             std::span<int32_t> best) {
  size_t found = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!allowed.empty() && allowed[i] == 0) continue;
    const double value = values[i];
    if (found == best.size() && !(value > values[best.back()])) continue;
    size_t place = found < best.size() ? found++ : best.size() - 1;
    for (; place > 0 && value > values[best[place - 1]]; --place) {
      best[place] = best[place - 1];
    }
    best[place] = static_cast<int32_t>(i);
  }
  std::sort(best.begin(), best.end());
}

double ScoreOfGroup(GroupScore kind, std::span<const double> scores) {
  double first = scores[0], second = 0;
  for (size_t i = 1; i < scores.size(); ++i) {
    if (scores[i] > first) {
      second = first;
      first = scores[i];
    } else if (i == 1 || scores[i] > second) {
      second = scores[i];
    }
  }
  return kind == GroupScore::kBest ? first : first + second;
}

// Whether a token may choose each expert; empty: it may choose all.
std::vector<char> AllowedExperts(const ExpertRouterConfig& config,
                                 const Scores& scores) {
  const int64_t experts = std::ssize(scores), width = experts / config.groups;
  if (config.active_groups == config.groups) return {};
  Scores groups;
  for (int64_t g = 0; g < config.groups; ++g) {
    groups.push_back(ScoreOfGroup(config.group_score,
                                  std::span(scores).subspan(g * width, width)));
  }
  std::vector<int32_t> best(config.active_groups);
  Largest(groups, {}, best);
  std::vector<char> allowed(experts, 0);
  for (const int64_t g : best) {
    std::fill_n(allowed.begin() + g * width, width, char{1});
  }
  return allowed;
}

// The sum that divides the scores of the chosen, or 1.
double DivisorOf(const ExpertRouterConfig& config, const Scores& scores,
                 std::span<const int32_t> chosen) {
  if (!config.normalized) return 1;
  double sum = kLeastScores;
  for (const int32_t e : chosen) sum += scores[e];
  return sum;
}

// By the scores of a token, through the weights of its chosen experts.
void WeightsBackward(const ExpertRouterConfig& config, const Scores& scores,
                     std::span<const int32_t> chosen,
                     std::span<const float> dweights, Scores& dscores) {
  const double divisor = DivisorOf(config, scores, chosen);
  double mean = 0;
  if (config.normalized) {
    for (size_t j = 0; j < chosen.size(); ++j) {
      mean += dweights[j] * scores[chosen[j]] / divisor;
    }
  }
  for (size_t j = 0; j < chosen.size(); ++j) {
    dscores[chosen[j]] += config.scale * (dweights[j] - mean) / divisor;
  }
}

// Each expert's share of the tokens.
std::vector<double> ShareOfTokens(const ExpertChoice& choice) {
  std::vector<double> share(choice.experts, 0.0);
  for (const int32_t e : choice.chosen) {
    share[e] += 1 / static_cast<double>(choice.tokens);
  }
  return share;
}

// By the scores of a token, through P of the balance: factor · Σ share · P.
void BalanceBackward(double factor, const std::vector<double>& share,
                     const Scores& scores, Scores& dscores) {
  const double sum =
      kLeastScores + std::accumulate(scores.begin(), scores.end(), 0.0);
  const double mean =
      std::inner_product(scores.begin(), scores.end(), share.begin(), 0.0) /
      sum;
  for (size_t e = 0; e < scores.size(); ++e) {
    dscores[e] += factor * (share[e] - mean) / sum;
  }
}

[[noreturn]] void RefuseRouter(const std::string& expected,
                               const std::string& found) {
  throw Error(ErrorCode::kInvalidArgument,
              {"router of experts", expected, found, ""});
}

}  // namespace

void CheckExpertRouter(const ExpertRouterConfig& config, int64_t experts) {
  const auto number = [](int64_t value) { return std::to_string(value); };
  if (config.active < 1 || config.active > experts) {
    RefuseRouter("1 to " + number(experts) + " active experts",
                 number(config.active));
  }
  if (config.groups < 1 || experts % config.groups != 0) {
    RefuseRouter("groups that divide " + number(experts) + " experts",
                 number(config.groups));
  }
  const int64_t width = experts / config.groups;
  const int64_t least = (config.active + width - 1) / width;
  if (config.active_groups < least || config.active_groups > config.groups) {
    RefuseRouter(number(least) + " to " + number(config.groups) +
                     " active groups, each of " + number(width) +
                     " experts, for " + number(config.active) +
                     " active experts",
                 number(config.active_groups));
  }
  if (config.group_score == GroupScore::kBestTwo && width < 2 &&
      config.active_groups < config.groups) {
    RefuseRouter("groups of two experts at least, as their two best count",
                 number(width) + " in each");
  }
}

ExpertChoice ChooseExperts(const ExpertRouterConfig& config, int64_t experts,
                           std::vector<float> logits,
                           std::span<const float> correction) {
  ExpertChoice choice;
  choice.experts = experts;
  choice.tokens = std::ssize(logits) / experts;
  choice.logits = std::move(logits);
  choice.chosen.resize(choice.tokens * config.active);
  choice.weights.resize(choice.chosen.size());
  Scores scores, preference;
  for (int64_t t = 0; t < choice.tokens; ++t) {
    const int64_t first = t * config.active;
    const auto chosen = std::span(choice.chosen).subspan(first, config.active);
    ScoreLogits(config.score, RowAt(choice.logits, t, experts), scores);
    preference = scores;
    for (size_t e = 0; e < correction.size(); ++e) {
      preference[e] += correction[e];
    }
    Largest(preference, AllowedExperts(config, preference), chosen);
    const double factor = config.scale / DivisorOf(config, scores, chosen);
    for (int64_t j = 0; j < config.active; ++j) {
      choice.weights[first + j] =
          static_cast<float>(factor * scores[chosen[j]]);
    }
  }
  return choice;
}

double BalanceLoss(const ExpertRouterConfig& config,
                   const ExpertChoice& choice) {
  const std::vector<double> share = ShareOfTokens(choice);
  double loss = 0;
  Scores scores;
  for (int64_t t = 0; t < choice.tokens; ++t) {
    ScoreLogits(config.score, RowAt(choice.logits, t, choice.experts), scores);
    loss +=
        std::inner_product(scores.begin(), scores.end(), share.begin(), 0.0) /
        (kLeastScores + std::accumulate(scores.begin(), scores.end(), 0.0));
  }
  return choice.tokens == 0 ? 0
                            : loss * static_cast<double>(choice.experts) /
                                  static_cast<double>(choice.tokens);
}

std::vector<float> ChoiceBackward(const ExpertRouterConfig& config,
                                  const ExpertChoice& choice,
                                  std::span<const float> dweights,
                                  double balance) {
  const int64_t experts = choice.experts, active = ActiveOf(choice);
  std::vector<float> dlogits(choice.logits.size());
  const std::vector<double> share =
      balance != 0 ? ShareOfTokens(choice) : std::vector<double>();
  const double factor =
      balance * static_cast<double>(experts) /
      static_cast<double>(std::max<int64_t>(choice.tokens, 1));
  Scores scores, dscores;
  for (int64_t t = 0; t < choice.tokens; ++t) {
    ScoreLogits(config.score, RowAt(choice.logits, t, experts), scores);
    dscores.assign(experts, 0.0);
    WeightsBackward(config, scores, RowAt(choice.chosen, t, active),
                    dweights.subspan(t * active, active), dscores);
    if (balance != 0) BalanceBackward(factor, share, scores, dscores);
    ScoreBackward(config.score, scores, dscores,
                  std::span(dlogits).subspan(t * experts, experts));
  }
  return dlogits;
}

ExpertUse UseOf(const ExpertChoice& choice) {
  ExpertUse use;
  use.tokens.assign(choice.experts, 0);
  use.weight.assign(choice.experts, 0.0);
  for (size_t i = 0; i < choice.chosen.size(); ++i) {
    ++use.tokens[choice.chosen[i]];
    use.weight[choice.chosen[i]] += choice.weights[i];
  }
  for (int64_t e = 0; e < choice.experts; ++e) {
    if (use.tokens[e] > 0) use.weight[e] /= static_cast<double>(use.tokens[e]);
  }
  return use;
}

}  // namespace headwise
