// Door: row_inputs.h.
#include "headwise/heads/profile/row_inputs.h"

#include "headwise/ops/copy/copy.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

template <typename T>
Tensor ListThere(Context& context, const std::vector<T>& values) {
  if (values.empty()) return {};
  return ToDevice(context, ConstTensorView(ViewOf(values)));
}

Tensor BytesThere(Context& context, const void* bytes, const Shape& shape) {
  return ToDevice(context, ConstTensorView(bytes, DType::kU8, shape));
}

}  // namespace

RowInputs::RowInputs(Context& context, const SiteNotes& notes) {
  std::vector<uint8_t> special, punctuation, rare;
  std::vector<int32_t> ids;
  const auto append = [](auto& to, const auto& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  for (const SiteNotes::Sequence& s : notes.sequences) {
    append(special, s.key_notes->special);
    append(punctuation, s.key_notes->punctuation);
    append(rare, s.key_notes->rare);
    append(ids, s.key_notes->ids);
  }
  const auto keys = static_cast<int64_t>(ids.size());
  notes_ = BytesThere(context, notes.rows.data(),
                      {static_cast<int64_t>(notes.rows.size()),
                       static_cast<int64_t>(sizeof(RowNotes))});
  special_ = BytesThere(context, special.data(), {keys});
  punctuation_ = BytesThere(context, punctuation.data(), {keys});
  rare_ = BytesThere(context, rare.data(), {keys});
  ids_ = ListThere(context, ids);
  if (!notes.pair_keys.empty()) {
    pair_offsets_ = ListThere(context, notes.pair_offsets);
    pair_split_ = ListThere(context, notes.pair_split);
    pair_keys_ = ListThere(context, notes.pair_keys);
  }
  context.Synchronize();  // what is copied is read until then
}

void RowInputs::Show(HeadRowsArgs& args) const {
  args.notes = notes_.view();
  args.special = special_.view();
  args.punctuation = punctuation_.view();
  args.rare = rare_.view();
  args.ids = ids_.view();
  args.pair_offsets = pair_offsets_.view();
  args.pair_split = pair_split_.view();
  args.pair_keys = pair_keys_.view();
}

SinkInputs::SinkInputs(Context& context, const SiteResults& results) {
  const auto sequences = static_cast<int64_t>(results.notes().sequences.size());
  std::vector<int32_t> starts = {0}, keys;
  std::vector<int64_t> at;
  std::vector<float> mass;
  for (int64_t b = 0; b < sequences; ++b) {
    for (int64_t h = 0; h < results.heads(); ++h) {
      for (const HeadSink& sink : results.sinks(h)) {
        if (sink.sequence != b) continue;
        keys.push_back(sink.key);
        at.push_back(static_cast<int64_t>(mass.size()));
        mass.insert(mass.end(), sink.mass.begin(), sink.mass.end());
      }
      starts.push_back(static_cast<int32_t>(keys.size()));
    }
  }
  starts_ = ListThere(context, starts);
  keys_ = ListThere(context, keys);
  at_ = ListThere(context, at);
  mass_ = ListThere(context, mass);
  context.Synchronize();  // what is copied is read until then
}

void SinkInputs::Show(HeadRowsArgs& args) const {
  args.sink_starts = starts_.view();
  args.sink_keys = keys_.view();
  args.sink_at = at_.view();
  args.sink_mass = mass_.view();
}

}  // namespace headwise
