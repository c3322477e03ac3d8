// Door: engine_flags.h.
#include "engine_flags.h"

#include <fmt/core.h>

#include <string_view>

#include "command.h"
#include "headwise/base/byte_size.h"
#include "headwise/device.h"
#include "headwise/model.h"
#include "ranks.h"

namespace headwise {
namespace {

constexpr std::string_view kNumbered = "cuda:";

bool IsNumbered(std::string_view word) {
  return word.starts_with(kNumbered) && word.size() > kNumbered.size() &&
         word.size() <= kNumbered.size() + 2 &&
         word.find_first_not_of("0123456789", kNumbered.size()) == word.npos;
}

std::string WhyNotType(const std::string& word) {
  for (const char* known : {"f32", "bf16", "f16", "auto"}) {
    if (word == known) return "";
  }
  return fmt::format("expected f32, bf16, f16 or auto; found {}", word);
}

std::string WhyNotSize(const std::string& word) {
  if (ParseByteSize(word)) return "";
  return fmt::format(
      "expected a number with its unit, such as 512MiB or 2GiB; "
      "found {}",
      word);
}

}  // namespace

std::string WhyNotDevice(const std::string& word) {
  if (word == "cpu" || word == "cuda" || word == "auto" || IsNumbered(word)) {
    return "";
  }
  return fmt::format("expected cpu, cuda, cuda:N or auto; found {}", word);
}

void EngineFlags::Require() const {
  compute();
  if (const Device there = context().device; !there.is_cpu()) {
    Context({.threads = 1, .device = there});
  }
}

ContextOptions EngineFlags::context() const {
  ContextOptions options;
  options.threads = threads > 0 ? threads : ThreadsOfRank();
  options.device = ParseDevice(device);
  return options;
}

DType EngineFlags::compute() const {
  const bool on_host = context().device.is_cpu();
  if (type == "auto") return on_host ? DType::kF32 : DType::kBF16;
  if (type == "f32") return DType::kF32;
  if (on_host) {
    throw UsageError(fmt::format(
        "--type: expected f32, which models on the CPU compute in; found {}",
        type));
  }
  if (type == "bf16") return DType::kBF16;
  if (type == "f16") return DType::kF16;
  throw UsageError("--type: " + WhyNotType(type));
}

std::optional<uint64_t> EngineFlags::prepared_bytes() const {
  if (weight_memory.empty()) return {};
  if (const Device there = context().device; !there.is_cpu()) {
    throw UsageError(
        fmt::format("--weight-memory: expected --device cpu; found "
                    "{}, which keeps a copy of all weights",
                    ToString(there)));
  }
  return ParseByteSize(weight_memory);
}

void AddThreadsFlag(CommandLine line, int& threads) {
  line.Option("--threads", threads,
              "Threads to use; 0: all cores. Results do not depend on it");
}

void AddEngineFlags(CommandLine line, EngineFlags& flags) {
  AddThreadsFlag(line, flags.threads);
  line.Option("--device", flags.device,
              "Where the model runs: cpu, cuda, cuda:N, or auto (a GPU where "
              "there is one)")
      .Check(WhyNotDevice)
      .ShowDefault();
  line.Option("--type", flags.type,
              "Type of activations, whatever the file stores: f32, bf16, "
              "f16, or auto (f32 on the CPU, bf16 on a GPU)")
      .Check(WhyNotType)
      .ShowDefault();
}

void AddWeightMemoryFlag(CommandLine line, EngineFlags& flags) {
  line.Option(
          "--weight-memory", flags.weight_memory,
          "Most memory for weights that are packed for products on the CPU, "
          "such as 512MiB or 2GiB; without it all are packed. Weights "
          "beyond it are packed at each product anew: the same results, "
          "slower")
      .Check(WhyNotSize);
}

}  // namespace headwise
