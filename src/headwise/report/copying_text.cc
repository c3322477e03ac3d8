// Sentences about copying. Door: report_json.h.
#include "headwise/report/report_json.h"

#include <fmt/core.h>

#include <cmath>

namespace headwise {
namespace {

constexpr const char* kMetric = "copying.run";
// A tenth of a logit changes odds by a tenth: less is hardly anything.
constexpr double kLeastTold = 0.1;

}  // namespace

std::string CopyingSentence(const Profile& profile, size_t head) {
  if (!profile.metrics.contains(kMetric)) {
    return "Whether it copies what it reads was not measured in a run: its "
           "output does not reach logits directly, or the profile is an older "
           "one.";
  }
  const Estimate run = profile.Get(kMetric, head);
  if (!(run.count > 0) || !std::isfinite(run.mean)) {
    return "Whether it copies what it reads cannot be said: on random tokens "
           "it reads none of them most.";
  }
  const bool sure = std::isfinite(run.low) && std::isfinite(run.high);
  const double low = sure ? run.low : run.mean;
  const double high = sure ? run.high : run.mean;
  std::string says;
  if (std::abs(run.mean) < kLeastTold) {
    says = fmt::format(
        "By itself its output hardly moves the token that it reads most: "
        "{:+.3f} logits from the mean",
        run.mean);
  } else if (low > 0) {
    says = fmt::format(
        "It copies: its output makes the token that it reads most likelier, by "
        "{:.2f} logits above the mean",
        run.mean);
  } else if (high < 0) {
    says = fmt::format(
        "It suppresses: its output makes the token that it reads most less "
        "likely, by {:.2f} logits below the mean",
        -run.mean);
  } else {
    says = fmt::format(
        "Its output is not surely for or against the token that it reads most: "
        "{:+.2f} logits from the mean",
        run.mean);
  }
  if (sure) {
    const int digits = std::abs(run.mean) < kLeastTold ? 3 : 2;
    says += fmt::format(" ({:+.{}f} to {:+.{}f})", run.low, digits, run.high,
                        digits);
  }
  return says + fmt::format(", in {:.0f} rows of random tokens said twice.",
                            run.count);
}

}  // namespace headwise
