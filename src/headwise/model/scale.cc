// Door: include/headwise/scale.h.
#include "headwise/scale.h"

#include <algorithm>
#include <cmath>

#include "headwise/base/fields.h"
#include "headwise/model/checkpoint.h"
#include "headwise/model/summary.h"

namespace headwise {
namespace {

constexpr double kTera = 1e12, kGiga = 1e9;
// The share of a GPU's memory for weights; the rest is activations.
constexpr double kForWeights = 0.9;
// bf16 weights of a profile; f32 values, gradients and two moments of training.
constexpr double kProfileBytes = 2, kTrainBytes = 16;
// An update reads and writes value, gradient and both moments.
constexpr double kUpdateBytes = 28;
constexpr double kGradientBytes = 4;
// A block of 64 windows sends about 100 metrics of 6 doubles a head to rank 0.
constexpr double kBlockWindows = 64, kHeadBytes = 100 * 6 * 8;
constexpr double kUseful = 0.5;
constexpr double kMostGpus = 1e12;

class Planner {
 public:
  Planner(const ModelConfig& config, const ScaleJob& job,
          const ScaleMachine& machine)
      : config_(config),
        job_(job),
        machine_(machine),
        cost_(CostOf(config, job.context)) {
    ModelConfig own = config;  // layers with weights of their own
    own.layers.clear();
    for (int64_t i = 0; i < std::ssize(config.layers); ++i) {
      const int64_t of = config.layers[i].weights_of;
      if (of < 0 || of == i) own.layers.push_back(config.layers[i]);
    }
    const RunCost one = CostOf(own, 1);
    const double products =
        one.projection_flops + one.mlp_flops + one.head_flops;
    const double table = static_cast<double>(config.vocabulary) *
                         static_cast<double>(config.EmbeddingWidth());
    // An output matrix is a table that products count, token embeddings are
    // none.
    const bool apart = config.encoder_decoder() && !config.shared_embeddings;
    plan_.parameters = products / 2 + (config.tied_embeddings ? 0 : table) +
                       (apart ? table : 0);
    plan_.copy_bytes =
        plan_.parameters * (IsTraining() ? kTrainBytes : kProfileBytes);
    const double wanted =
        plan_.copy_bytes / (kForWeights * machine.memory_gb * kGiga);
    plan_.copy_gpus =
        static_cast<int64_t>(std::clamp(std::ceil(wanted), 1.0, kMostGpus));
    plan_.step_tokens = IsTraining() ? job.step_tokens : 0;
    plan_.flops_a_token = (Products() + Attention()) * Passes();
  }

  ScalePlan Make(int64_t gpus) {
    for (int64_t n = plan_.copy_gpus; n <= gpus; n *= 2) {
      plan_.rows.push_back(Row(n));
    }
    if (plan_.rows.empty()) plan_.rows.push_back(Row(plan_.copy_gpus));
    for (const ScaleRow& row : plan_.rows) {
      if (plan_.Efficiency(row) < kUseful) {
        plan_.limit = row.links > row.reading ? "links" : "reading";
        break;
      }
      plan_.useful_gpus = row.gpus;
    }
    return std::move(plan_);
  }

 private:
  bool IsTraining() const { return job_.work == ScaleTask::kTrain; }
  // A backward is two forwards.
  double Passes() const { return IsTraining() ? 3 : 1; }
  double Context() const { return static_cast<double>(job_.context); }
  // Operations a token; a profile ends with the last attention.
  double Products() const {
    return (cost_.projection_flops + cost_.mlp_flops +
            (IsTraining() ? cost_.head_flops : 0)) /
           Context();
  }
  double Attention() const { return cost_.attention_flops / Context(); }
  double Steps() const { return job_.tokens / job_.step_tokens; }

  // Bytes a second of the link that n GPUs need.
  double Link(int64_t n) const {
    return kGiga * (n <= machine_.node_gpus ? machine_.node_gb_s
                                            : machine_.network_gb_s);
  }

  ScaleRow Row(int64_t gpus) const {
    ScaleRow row;
    row.gpus = gpus;
    row.compute = job_.tokens * Passes() *
                  (Products() / machine_.product_tflops +
                   Attention() / machine_.attention_tflops) /
                  kTera / static_cast<double>(gpus);
    if (IsTraining()) {  // every copy updates all of it
      row.compute += Steps() * plan_.parameters * kUpdateBytes /
                     static_cast<double>(plan_.copy_gpus) /
                     (machine_.memory_gb_s * kGiga);
    }
    row.links = Split(gpus) + (IsTraining() ? Gradients(gpus) : Blocks(gpus));
    // A step's sequences are read by who trains on them.
    row.reading = IsTraining() ? 0 : job_.tokens / machine_.read_tokens;
    return row;
  }

  // A model over several GPUs: two sums of [tokens, width] a layer and pass.
  double Split(int64_t gpus) const {
    const auto k = static_cast<double>(plan_.copy_gpus);
    if (plan_.copy_gpus == 1) return 0;
    const double layers =
        static_cast<double>(config_.layers.size() + config_.decoder.size());
    const double bytes = 2 * layers * static_cast<double>(config_.width) * 2 *
                         2 * (k - 1) / k * Passes();
    return job_.tokens / (static_cast<double>(gpus) / k) * bytes /
           Link(plan_.copy_gpus);
  }

  // Up the tree and down again, a level after the other; or round a ring.
  double Gradients(int64_t gpus) const {
    const double bytes = plan_.parameters * kGradientBytes /
                         static_cast<double>(plan_.copy_gpus);
    const int64_t copies = gpus / plan_.copy_gpus;
    if (job_.ring) {
      const double share = 1 - 1 / static_cast<double>(copies);
      return Steps() * 2 * share * bytes / Link(gpus);
    }
    double seconds = 0;
    for (int64_t reach = 2 * plan_.copy_gpus; reach <= gpus; reach *= 2) {
      seconds += 2 * bytes / Link(reach);
    }
    return Steps() * seconds;
  }

  // All blocks but rank 0's own arrive there.
  double Blocks(int64_t gpus) const {
    double heads = 0;
    for (const auto* layers : {&config_.layers, &config_.decoder}) {
      for (const LayerShape& layer : *layers) {
        heads += static_cast<double>(layer.heads + layer.cross_heads);
      }
    }
    const double blocks = job_.tokens / (kBlockWindows * Context());
    const double others =
        1 - static_cast<double>(plan_.copy_gpus) / static_cast<double>(gpus);
    return blocks * others * heads * kHeadBytes / Link(gpus);
  }

  const ModelConfig& config_;
  const ScaleJob& job_;
  const ScaleMachine& machine_;
  RunCost cost_;
  ScalePlan plan_;
};

}  // namespace

double ScalePlan::Efficiency(const ScaleRow& row) const {
  const double share =
      static_cast<double>(rows.front().gpus) / static_cast<double>(row.gpus);
  return rows.front().seconds() * share / row.seconds();
}

ScalePlan PlanScale(const std::filesystem::path& model, const ScaleJob& job,
                    const ScaleMachine& machine) {
  CheckFields(job, "plan");
  CheckFields(machine, "plan");
  const ModelConfig config = OpenConfig(model);
  return Planner(config, job, machine).Make(job.gpus);
}

}  // namespace headwise
