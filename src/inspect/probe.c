/* inspect/probe.c - L8. See probe.h.
 *
 * The notes have the form of SystemTap's <sys/sdt.h>, version 3. A note has the owner "stapsdt" and three addresses: of
 * the probe, of .stapsdt.base at link time, and of the semaphore. The names and the places of the arguments follow. A
 * tool that moves the file's addresses later, as prelinking does, moves .stapsdt.base too; readers correct the other
 * addresses by the difference.
 */
#include "inspect/probe.h"

#include "unwind/site_sums.h"

/* A tracer adds 1 to the semaphore while it traces, through the semaphore's file offset. Tracers look for it in a
 * section of this name. */
#define SEMAPHORE __attribute__((section(".probes"), used))
SEMAPHORE HK_HIDDEN volatile unsigned short hk_probe_alloc_semaphore;
SEMAPHORE HK_HIDDEN volatile unsigned short hk_probe_free_semaphore;

/* A nop, and the note about it. `arguments`: size@place, with a negative size for a signed argument. */
#define NOTE(name, arguments)                                             \
  "990: nop\n"                                                            \
  ".pushsection .note.stapsdt,\"?\",\"note\"\n"                           \
  ".balign 4\n"                                                           \
  ".4byte 992f-991f, 994f-993f, 3\n"                                      \
  "991: .asciz \"stapsdt\"\n"                                             \
  "992: .balign 4\n"                                                      \
  "993: .8byte 990b\n"                                                    \
  ".8byte _.stapsdt.base\n"                                               \
  ".8byte hk_probe_" name                                                 \
  "_semaphore\n"                                                          \
  ".asciz \"otel_memory\"\n"                                              \
  ".asciz \"" name                                                        \
  "\"\n"                                                                  \
  ".asciz \"" arguments                                                   \
  "\"\n"                                                                  \
  "994: .balign 4\n"                                                      \
  ".popsection\n"                                                         \
  ".ifndef _.stapsdt.base\n"                                              \
  ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n" \
  ".weak _.stapsdt.base\n"                                                \
  ".hidden _.stapsdt.base\n"                                              \
  "_.stapsdt.base: .space 1\n"                                            \
  ".size _.stapsdt.base, 1\n"                                             \
  ".popsection\n"                                                         \
  ".endif\n"

HK_NOINLINE static void tell_alloc(uintptr_t address, uint64_t bytes, uint64_t weighted_bytes) {
  __asm__ volatile(NOTE("alloc", "8@%[address] 8@%[bytes] 8@%[weighted]")
                   :
                   : [address] "r"(address), [bytes] "r"(bytes), [weighted] "r"(weighted_bytes));
}

HK_NOINLINE static void tell_free(uintptr_t address) {
  __asm__ volatile(NOTE("free", "8@%[address]") : : [address] "r"(address));
}

void hk_probe_alloc(uintptr_t address, const hk_sample_weight_t *weight) {
  if (HK_LIKELY(hk_probe_alloc_semaphore == 0)) return;
  tell_alloc(address, weight->requested_bytes, hk_site_sums_weighted(weight->requested_bytes, weight->weight_q16));
}

void hk_probe_free(uintptr_t address) {
  if (HK_UNLIKELY(hk_probe_free_semaphore != 0)) tell_free(address);
}
