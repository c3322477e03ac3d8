// A batch's notes as HeadRowTallies reads them, on the context's device.
#pragma once

#include <cstdint>
#include <vector>

#include "headwise/context.h"
#include "headwise/heads/profile/rows/head_rows.h"
#include "headwise/heads/profile/site_notes.h"
#include "headwise/heads/profile/site_results.h"
#include "headwise/tensor.h"

namespace headwise {

class RowInputs {
 public:
  RowInputs() = default;
  RowInputs(Context& context, const SiteNotes& notes);

  void Show(HeadRowsArgs& args) const;

 private:
  Tensor notes_, special_, punctuation_, rare_, ids_;
  Tensor pair_offsets_, pair_split_, pair_keys_;
};

// Likewise the sinks of single heads.
class SinkInputs {
 public:
  SinkInputs(Context& context, const SiteResults& results);

  void Show(HeadRowsArgs& args) const;

 private:
  Tensor starts_, keys_, at_, mass_;
};

}  // namespace headwise
