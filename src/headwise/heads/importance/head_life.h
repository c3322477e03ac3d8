// A head's life: what every head of a model in training does, observed every
// so many steps. Four numbers a head, all in [0, 1] but the last:
//
//   entropy     normalised by the number of visible keys
//   previous    mass on the token before
//   induction   prefix-matching score on random repeats
//   importance  |∂L/∂g|, mean over sequences (Michel et al. 2019), in nats
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "headwise/context.h"
#include "headwise/heads/profile/notes.h"
#include "headwise/heads/profile/profile.h"
#include "headwise/model/model.h"
#include "headwise/runtime/windows.h"
#include "headwise/tokenizer/tokenizer.h"

namespace headwise {

inline constexpr const char* kLifeSeries[] = {"entropy", "previous",
                                              "induction", "importance"};

// All heads at one step.
struct LifeMoment {
  int64_t step = 0;
  std::vector<std::string> heads;  // "5.1"
  // By series, one a head; NaN where it does not apply.
  std::map<std::string, std::vector<double>> values;
};

// Sees a model on the same windows every time. What is given must outlive it.
class LifeObserver {
 public:
  LifeObserver(Context& context, const Tokenizer& tokenizer,
               const ModelConfig& config, std::vector<TokenWindow> windows);

  // seen: gets the profile that the moment was read from; may be null.
  LifeMoment Observe(const Model& model, int64_t step,
                     Profile* seen = nullptr) const;

 private:
  std::vector<double> Importance(const Model& model) const;

  Context& context_;
  const Tokenizer& tokenizer_;
  TokenTable table_;
  TokenFrame frame_;  // of random repeats
  std::vector<TokenWindow> windows_;
};

// One JSON object a line: {"step": 50, "heads": ["0.0", …], "entropy": […], …};
// null where a number does not apply. Written whole.
void WriteLife(const std::filesystem::path& file,
               const std::vector<LifeMoment>& life);
// Moments up to and with `last`; none where there is no such file. Throws
// Error(kCorrupt) naming the line.
std::vector<LifeMoment> ReadLife(const std::filesystem::path& file,
                                 int64_t last);

}  // namespace headwise
