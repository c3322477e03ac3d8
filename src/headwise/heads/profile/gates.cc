// Door: gates.h.
#include "headwise/heads/profile/gates.h"

#include <vector>

#include "headwise/runtime/on_host.h"

namespace headwise {

void AddGates(Context& context, const ConstTensorView& given,
              const SiteNotes& notes, ProfilePlace place) {
  const HostFloats floats(context, given);
  const ConstTensorView& gates = floats.view();
  std::vector<Tally>& means = place.profile->Tallies("gate");
  std::vector<Tally>& open = place.profile->Tallies("gate.open");
  for (const SiteNotes::Sequence& sequence : notes.sequences) {
    for (int64_t h = 0; h < gates.shape[2]; ++h) {
      double sum = 0, above = 0;
      for (int64_t t = 0; t < sequence.queries; ++t) {
        const float gate =
            gates.As<float>()[(sequence.query_begin + t) * gates.stride[1] +
                              h * gates.stride[2]];
        sum += gate;
        above += gate > 0 ? 1 : 0;
      }
      means[place.first + h].Add(sum, static_cast<double>(sequence.queries));
      open[place.first + h].Add(above, static_cast<double>(sequence.queries));
    }
  }
}

}  // namespace headwise
