// Door: engine_flags.h.
#include "engine_flags.h"

#include <fmt/core.h>

#include <string_view>

namespace headwise {
namespace {

bool IsCuda(std::string_view word) {
  if (word == "cuda") return true;
  constexpr std::string_view kNumbered = "cuda:";
  return word.starts_with(kNumbered) && word.size() > kNumbered.size() &&
         word.find_first_not_of("0123456789", kNumbered.size()) == word.npos;
}

std::string WhyNotDevice(const std::string& word) {
  if (word == "cpu") return "";
  if (IsCuda(word)) {
    return fmt::format(
        "expected cpu: this build runs models on nothing else; found {}", word);
  }
  return fmt::format("expected cpu, cuda or cuda:N; found {}", word);
}

std::string WhyNotType(const std::string& word) {
  if (word == "f32") return "";
  return fmt::format(
      "expected f32: this build runs models in nothing else; found {}", word);
}

}  // namespace

ContextOptions EngineFlags::context() const {
  ContextOptions options;
  options.threads = threads;
  return options;
}

void AddThreadsFlag(CommandLine line, int& threads) {
  line.Option("--threads", threads,
              "Threads to use; 0: all cores. Results do not depend on it");
}

void AddEngineFlags(CommandLine line, EngineFlags& flags) {
  AddThreadsFlag(line, flags.threads);
  line.Option("--device", flags.device,
              "Where the model runs: cpu (cuda and cuda:N are not built in)")
      .Check(WhyNotDevice)
      .ShowDefault();
  line.Option("--type", flags.type,
              "What the model computes in: f32, whatever its file stores")
      .Check(WhyNotType)
      .ShowDefault();
}

}  // namespace headwise
