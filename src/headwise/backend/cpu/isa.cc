// Instruction-set levels over Highway's targets. Door: isa.h.
#include "headwise/backend/cpu/isa.h"

#include <cstdint>
#include <cstdlib>
#include <mutex>

#include "headwise/context.h"
#include "headwise/error.h"
#include "hwy/targets.h"

namespace headwise {
namespace {

struct Level {
  const char* name;
  int64_t targets;  // Highway targets that belong to this level
};

#if HWY_ARCH_X86
constexpr Level kLevels[] = {
    {"scalar", HWY_SCALAR | HWY_EMU128},
    {"avx2", HWY_AVX2},
    {"avx512", HWY_AVX3},
};
#else
constexpr Level kLevels[] = {
    {"scalar", HWY_SCALAR | HWY_EMU128},
    {"neon", HWY_NEON},
};
#endif

void Cap() {
  const char* cap = std::getenv("HEADWISE_MAX_ISA");
  if (cap == nullptr) return;
  int64_t above = 0;
  bool found = false;
  for (const Level& level : kLevels) {
    if (found) above |= level.targets;
    if (std::string(level.name) == cap) found = true;
  }
  if (!found) {
    std::string names;
    for (const std::string& name : IsaNames()) names += " " + name;
    throw Error(ErrorCode::kInvalidArgument,
                {"context", "HEADWISE_MAX_ISA one of" + names, cap,
                 "unset it to use the machine's best"});
  }
  hwy::DisableTargets(above);
}

}  // namespace

void ApplyIsaCap() {
  static std::once_flag once;
  std::call_once(once, Cap);
}

std::string InstructionSet() {
  ApplyIsaCap();
  const int64_t supported = hwy::SupportedTargets();
  std::string best = kLevels[0].name;
  for (const Level& level : kLevels) {
    if ((supported & level.targets) != 0) best = level.name;
  }
  return best;
}

std::vector<std::string> IsaNames() {
  std::vector<std::string> names;
  for (const Level& level : kLevels) names.emplace_back(level.name);
  return names;
}

}  // namespace headwise
