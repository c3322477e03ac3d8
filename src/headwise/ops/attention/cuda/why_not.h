// What no CUDA path takes, as the entries of the list say it.
#pragma once

#include <string>

#include "headwise/ops/attention/call.h"

namespace headwise::attention_cuda {

// Empty, or why no kernel of this folder takes the problem: all that the plain
// ones have against it.
Reason WhyNotPlain(const AttentionProblem& problem);

// The same of the two fast paths.
Reason WhyNotAny(const AttentionProblem& problem);

// Empty, or why neither fast path takes the call, of whose problems it is known
// that they are taken: more blocks than a grid has, rows that are not aligned
// to 16 bytes. Views that are not given are passed over.
Reason WhyNotCall(const AttentionCall& call);

// Empty, or why the plain path does not.
Reason WhyNotPlainCall(const AttentionCall& call);

// The views [B, position, head, dim] that a call reads or writes, given to
// see(name, view).
template <typename See>
void VisitRows(const AttentionForwardCall& call, const See& see) {
  const AttentionArgs& a = call.args;
  see("q", a.q);
  see("k", a.k);
  see("v", a.v);
  see("out", a.out);
  see("ungated", a.ungated);
}
template <typename See>
void VisitRows(const AttentionBackwardCall& call, const See& see) {
  const AttentionArgs& a = call.args;
  const AttentionGrads& g = call.grads;
  see("q", a.q);
  see("k", a.k);
  see("v", a.v);
  if (a.gates) {
    see("ungated", a.ungated);
  } else {
    see("out", a.out);
  }
  see("dout", g.dout);
  see("dq", g.dq);
  see("dk", g.dk);
  see("dv", g.dv);
}
template <typename See>
void VisitRows(const AttentionGramCall& call, const See& see) {
  for (const HeadSource& source : call.sources) {
    see("q", source.args.q);
    see("k", source.args.k);
  }
}
// The other second passes.
template <typename Call, typename See>
void VisitRows(const Call& call, const See& see) {
  see("q", call.args.q);
  see("k", call.args.k);
}

}  // namespace headwise::attention_cuda
