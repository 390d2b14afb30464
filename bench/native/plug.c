/* The cheapest plugin: reads its request to the end and answers ok. Linked statically. */
#include <unistd.h>

static const char response[] = "{\"status\":\"ok\",\"result\":\"ok\"}\n";

int main(void) {
  char buffer[4096];
  while (read(0, buffer, sizeof buffer) > 0) continue;
  return write(1, response, sizeof response - 1) == sizeof response - 1 ? 0 : 1;
}
