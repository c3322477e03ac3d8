// What profiling or training a model takes on many GPUs, from counts of
// operations, bytes and links: the time, and where more GPUs stop to help. A
// calculation; nothing is run. docs/scale.md holds it against measurements.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "headwise/model/config.h"

namespace headwise {

// Rates that are reached, not promised. The defaults: see docs/scale.md for
// which of them were measured and which are assumed.
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
          "10^12 operations a second of a GPU in matrix products");
    visit("attention_tflops", self.attention_tflops,
          "the same in attention with its statistics");
    visit("memory_gb", self.memory_gb, "10^9 bytes of a GPU");
    visit("memory_gb_s", self.memory_gb_s, "10^9 bytes a second from them");
    visit("node_gpus", self.node_gpus, "GPUs of a machine");
    visit("node_gb_s", self.node_gb_s,
          "10^9 bytes a second from a GPU to another of its machine");
    visit("network_gb_s", self.network_gb_s, "the same to another machine");
    visit("read_tokens", self.read_tokens,
          "tokens a second that a rank reads and cuts text into");
  }
};

enum class ScaleTask : uint8_t { kProfile, kTrain };

struct ScaleWork {
  ScaleTask task = ScaleTask::kProfile;
  double tokens = 1e12;
  int64_t context = 1024;
  double step_tokens = 4e6;  // train: of a step, over all GPUs
  // train: gradients in a ring, each link busy at once; else as they are, in a
  // tree of whole gradients.
  bool ring = false;
};

// Seconds of the whole work.
struct ScaleRow {
  int64_t gpus = 1;
  double compute = 0;  // products, attention, updates
  double links = 0;    // gradients, sums of blocks, halves of layers
  double reading = 0;  // text, which every rank reads whole
  double seconds() const { return compute + links + reading; }
};

struct ScalePlan {
  double parameters = 0;
  double flops_a_token = 0;
  double copy_bytes = 0;       // of the model, and of what trains it
  int64_t copy_gpus = 1;       // that hold one copy
  double step_tokens = 0;      // train
  std::vector<ScaleRow> rows;  // copy_gpus · 1, 2, 4 … up to what was asked
  // The most GPUs that are used to at least a half, and what takes the time
  // that is lost beyond; "" where that is not reached.
  int64_t useful_gpus = 1;
  std::string limit;

  // Share of the first row's time, spread over so many GPUs.
  double Efficiency(const ScaleRow& row) const;
};

// gpus: the most that are looked at. Throws Error(kInvalidArgument) for rates
// and sizes that are not above 0.
ScalePlan PlanScale(const ModelConfig& config, const ScaleWork& work,
                    const ScaleMachine& machine, int64_t gpus);

}  // namespace headwise
