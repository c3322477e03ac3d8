// The headwise program: one table of commands.
int main() { return 0; }
