// Time of profiling or training a model on many GPUs, from counts of
// operations, bytes and links, and where more GPUs stop helping. A calculation;
// nothing is run. docs/scale.md compares it with measurements.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "headwise/export.h"
#include "headwise/fields.h"

namespace headwise {

/// Rates that are reached, not promised. docs/scale.md says which of the
/// defaults were measured and which are assumed.
struct ScaleMachine {
  double product_tflops = 400;
  double attention_tflops = 400;
  double memory_gb = 141;
  double memory_gb_s = 3000;
  int64_t node_gpus = 8;
  double node_gb_s = 200;
  double network_gb_s = 25;
  double read_tokens = 1e6;

  template <typename Self, typename Visit>
  static void VisitFields(Self& self, Visit&& visit) {
    visit("product_tflops", self.product_tflops,
          "10^12 operations a second of a GPU in matrix products", Above(0));
    visit("attention_tflops", self.attention_tflops,
          "10^12 operations a second of a GPU in attention with its statistics",
          Above(0));
    visit("memory_gb", self.memory_gb, "10^9 bytes of a GPU", Above(0));
    visit("memory_gb_s", self.memory_gb_s,
          "10^9 bytes a second from a GPU's memory", Above(0));
    visit("node_gpus", self.node_gpus, "GPUs of a machine", AtLeast(1));
    visit("node_gb_s", self.node_gb_s,
          "10^9 bytes a second from a GPU to another of its machine", Above(0));
    visit("network_gb_s", self.network_gb_s,
          "10^9 bytes a second to another machine", Above(0));
    visit("read_tokens", self.read_tokens,
          "tokens a second that a rank reads and cuts text into", Above(0));
  }
};

enum class ScaleTask : uint8_t { kProfile, kTrain };
constexpr std::array<const char*, 2> FieldWords(ScaleTask) {
  return {"profile", "train"};
}

struct ScaleJob {
  ScaleTask work = ScaleTask::kProfile;
  int64_t gpus = 1024;
  double tokens = 1e12;
  int64_t context = 1024;
  double step_tokens = 4e6;
  /// Training: gradients in a ring, each link busy at once; else in a tree of
  /// whole gradients.
  bool ring = false;

  template <typename Self, typename Visit>
  static void VisitFields(Self& self, Visit&& visit) {
    visit("work", self.work, "the work that is planned");
    visit("gpus", self.gpus, "the most GPUs to look at", Between(1, 1 << 20));
    visit("tokens", self.tokens, "tokens of the whole work", Above(0));
    visit("context", self.context, "tokens of a window", AtLeast(1));
    visit("step_tokens", self.step_tokens,
          "train: tokens of a step, over all GPUs", Above(0));
    visit("ring", self.ring,
          "train: gradients in a ring, as NCCL adds them, and not in a tree");
  }
};

/// Seconds of the whole work.
struct ScaleRow {
  int64_t gpus = 1;
  double compute = 0;  ///< products, attention, updates
  double links = 0;    ///< gradients, sums of blocks, halves of layers
  double reading = 0;  ///< text, which every rank reads whole
  double seconds() const { return compute + links + reading; }
};

struct ScalePlan {
  double parameters = 0;
  double flops_a_token = 0;
  double copy_bytes = 0;   ///< of the model, and of what trains it
  int64_t copy_gpus = 1;   ///< that hold one copy
  double step_tokens = 0;  ///< of training
  /// copy_gpus · 1, 2, 4 … up to ScaleJob::gpus.
  std::vector<ScaleRow> rows = {};
  /// The most GPUs that are used to at least a half.
  int64_t useful_gpus = 1;
  /// The part that limits further GPUs, "links" or "reading"; "": all
  /// are used to at least a half.
  std::string limit = {};

  /// Share of the first row's time, spread over so many GPUs.
  HEADWISE_API double Efficiency(const ScaleRow& row) const;
};

/// model: a folder with a config.json; weights are not needed. Throws Error: as
/// ReadModelInfo (model_info.h) does; kInvalidArgument for numbers out of their
/// range.
HEADWISE_API ScalePlan PlanScale(const std::filesystem::path& model,
                                 const ScaleJob& job = {},
                                 const ScaleMachine& machine = {});

}  // namespace headwise
