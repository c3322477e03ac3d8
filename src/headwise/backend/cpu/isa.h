// Which vector instructions this process may use: what the machine has, capped
// by $HEADWISE_MAX_ISA so that one machine can test every path. What that is
// now: InstructionSet (include/headwise/context.h).
#pragma once

#include <string>
#include <vector>

namespace headwise {

// Applies $HEADWISE_MAX_ISA (scalar, avx2, avx512; scalar, neon) to the
// run-time dispatch, once a process. Throws on an unknown name.
void ApplyIsaCap();

// Names that HEADWISE_MAX_ISA takes on this architecture, lowest first.
std::vector<std::string> IsaNames();

}  // namespace headwise
