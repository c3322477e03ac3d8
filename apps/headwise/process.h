// Settings of the process before anything else: which signals end
// it, and with which words.
#pragma once

namespace headwise {

// Called once, before there are other threads.
void PrepareProcess();

}  // namespace headwise
