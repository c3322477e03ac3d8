// Times a profile of ids in memory on any device: windows of random tokens
// through a model of random weights, without the vocabulary head.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "headwise/base/json.h"
#include "headwise/context.h"
#include "headwise/heads/profile/profile.h"
#include "headwise/tensor.h"

namespace headwise::bench {

struct ProfileBenchOptions {
  std::string shape = "gpt2";  // as random_model.h has it
  int64_t length = 1024;       // tokens of a window
  std::optional<MetricSet> metrics = MetricSet::kCore;  // none: runs alone
  double seconds = 10;  // at least, after warm-up
  DType type = DType::kF32;
};

struct ProfileBenchResult {
  std::string model;
  std::string device;
  std::string type;
  std::string metrics;
  int64_t length = 0;
  int64_t tokens = 0;  // that were timed
  double seconds = 0;
  double tokens_per_second = 0;
  double spread = 0;  // of the rounds' times
};

// Throws Error as the shape does.
ProfileBenchResult BenchProfile(const ContextOptions& context,
                                const ProfileBenchOptions& options);

std::string Table(const ProfileBenchResult& result);
Json ToJson(const ProfileBenchResult& result);

}  // namespace headwise::bench
