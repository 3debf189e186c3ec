# Mutants prove that the checker can fail: each is a mistake that an author could make, and the checker has to find it.
# weakened.h has the operations in capitals.
#
#   hk_add_model_mutant(<name> <scenario> <source> <its text> <weakened> <what the checker says>)

# ---- Blocks under way.
hk_add_model_mutant(push_relaxed remote_batch_and_single heap/remote.c
  "hk_compare_exchange_weak_acq_rel(&owner->shared.incoming" "RELAXED_COMPARE_EXCHANGE(&owner->shared.incoming"
  "data race"
)
hk_add_model_mutant(push_once remote_batch_and_single heap/remote.c
  "hk_compare_exchange_weak_acq_rel(&owner->shared.incoming" "COMPARE_EXCHANGE_ONCE(&owner->shared.incoming"
  "no block is lost"
)
hk_add_model_mutant(push_stores remote_batch_and_single heap/remote.c
  "hk_compare_exchange_weak_acq_rel(&owner->shared.incoming" "STORE_INSTEAD(&owner->shared.incoming"
  "data race"
)
hk_add_model_mutant(push_in_two_steps remote_batch_and_single heap/remote.c
  "hk_compare_exchange_weak_acq_rel(&owner->shared.incoming" "TWO_STEP_COMPARE_EXCHANGE(&owner->shared.incoming"
  "nothing is damaged"
)
hk_add_model_mutant(drain_relaxed remote_batch_and_single heap/remote.c
  "hk_exchange_acquire(&heap->shared.incoming" "RELAXED_EXCHANGE(&heap->shared.incoming"
  "data race"
)
hk_add_model_mutant(drain_in_two_steps remote_use_at_once heap/remote.c
  "hk_exchange_acquire(&heap->shared.incoming" "TWO_STEP_EXCHANGE(&heap->shared.incoming"
  "no block is lost"
)
hk_add_model_mutant(drain_ignores_the_bit remote_double_free heap/remote.c
  "!hk_block_is_intact(block) || !hk_remote_is_under_way(link)" "!hk_block_is_intact(block)"
  "an execution does not end"
)

# ---- Heaps that change their thread.
hk_add_model_mutant(slot_filled_relaxed exit_and_reuse heap/pool.c
  "hk_compare_exchange_weak_release(&slots[i]" "RELAXED_COMPARE_EXCHANGE(&slots[i]"
  "data race"
)
hk_add_model_mutant(slot_filled_in_two_steps exit_and_exit heap/pool.c
  "hk_compare_exchange_weak_release(&slots[i]" "TWO_STEP_COMPARE_EXCHANGE(&slots[i]"
  "no idle heap is lost"
)
hk_add_model_mutant(slot_emptied_relaxed exit_and_reuse heap/pool.c
  "hk_exchange_acquire(&slots[i]" "RELAXED_EXCHANGE(&slots[i]"
  "data race"
)
hk_add_model_mutant(slot_emptied_in_two_steps adopt_and_adopt_and_free heap/pool.c
  "hk_exchange_acquire(&slots[i]" "TWO_STEP_EXCHANGE(&slots[i]"
  "data race"
)
hk_add_model_mutant(slot_of_one_emptied_relaxed exit_and_follow heap/pool.c
  "hk_compare_exchange_acquire(&slots[i]" "RELAXED_COMPARE_EXCHANGE(&slots[i]"
  "data race"
)
hk_add_model_mutant(slot_of_one_emptied_in_two_steps follow_and_adopt_and_free heap/pool.c
  "hk_compare_exchange_acquire(&slots[i]" "TWO_STEP_COMPARE_EXCHANGE(&slots[i]"
  "data race"
)
hk_add_model_mutant(overflow_taken_unlocked beyond_slots_and_two_adopt heap/pool.c
  "hk_lock_acquire(hk_lock_heap_pool);
  hk_heap_t *heap = NULL;
  if (wanted != NULL) {
    if (hk_list_is_linked(&wanted->pool_link)) heap = wanted;
  } else if (hk_load_relaxed(&overflow_count) > 0) {
    heap = HK_CONTAINER_OF(overflow.next, hk_heap_t, pool_link);
  }
  if (heap != NULL) take_out_locked(heap);
  hk_lock_release(hk_lock_heap_pool);"
  "hk_heap_t *heap = NULL;
  if (wanted != NULL) {
    if (hk_list_is_linked(&wanted->pool_link)) heap = wanted;
  } else if (hk_load_relaxed(&overflow_count) > 0) {
    heap = HK_CONTAINER_OF(overflow.next, hk_heap_t, pool_link);
  }
  if (heap != NULL) take_out_locked(heap);"
  "data race"
)
hk_add_model_mutant(overflow_given_unlocked beyond_slots_two_and_adopt heap/pool.c
  "hk_lock_acquire(hk_lock_heap_pool);
  if (!is_idle(heap)) {
    hk_heap_set_life(heap, hk_heap_idle);
    hk_keep_store_order();
    push_locked(heap, push);
  }
  hk_lock_release(hk_lock_heap_pool);"
  "hk_heap_set_life(heap, hk_heap_idle);
  push_locked(heap, push);"
  "data race"
)
hk_add_model_mutant(given_back_without_a_look free_before_idle heap/pool.c
  "hk_load_in_turn(&heap->shared.incoming) != HK_LIST_END" "(void)heap, false"
  "nothing waits for a heap that no thread has"
)
hk_add_model_mutant(given_back_with_an_old_look free_before_idle heap/pool.c
  "hk_load_in_turn(&heap->shared.incoming)" "hk_load_acquire(&heap->shared.incoming)"
  "nothing waits for a heap that no thread has"
)
hk_add_model_mutant(push_without_acquire free_before_idle heap/remote.c
  "hk_compare_exchange_weak_acq_rel(&owner->shared.incoming" "hk_compare_exchange_weak_release(&owner->shared.incoming"
  "nothing waits for a heap that no thread has"
)
hk_add_model_mutant(sent_on_and_left send_to_a_span_that_moved heap/remote.c
  "while (has_sent && (heap = hk_heap_take_with_incoming()) != NULL)" "while (has_sent = false, has_sent)"
  "nothing waits for a heap that no thread has"
)
hk_add_model_mutant(list_of_heaps_relaxed new_heaps_and_a_walk heap/heap.c
  "hk_store_release(&all, heap)" "hk_store_relaxed(&all, heap)"
  "data race"
)
hk_add_model_mutant(exit_keeps_batches exit_of_both heap/thread.c
  "hk_remote_flush(heap);\n  hk_heap_unload(heap);" "hk_heap_unload(heap);"
  "no block is lost"
)

# ---- Spans that change their heap.
hk_add_model_mutant(drain_of_a_moved_span steal_and_adopt heap/remote.c
  "HK_UNLIKELY(owner != heap)" "(void)owner, false"
  "data race"
)
hk_add_model_mutant(span_moved_after_give_back steal_and_adopt heap/steal.c
  "hk_heap_enter_taken(from);
  bool moved = move_span(heap, from, class_index);
  hk_heap_leave(from);
  hk_remote_give_back(from);"
  "hk_heap_give_back(from);
  bool moved = move_span(heap, from, class_index);"
  "data race"
)
hk_add_model_mutant(span_moves_without_its_owner steal_and_adopt heap/steal.c
  "hk_store_relaxed(&span[i].owner, to);
  if"
  "(void)i;
  if"
  "a span is one heap's"
)

# ---- Spans that are drained.
hk_add_model_mutant(drain_of_the_active_span drain_of_what_is_active heap/purge_drain.c
  "->state[span->class_index].active) != span" "->state[span->class_index].active) != NULL"
  "the span that its bin allocates from stays"
)
hk_add_model_mutant(drain_looks_relaxed drain_of_what_was_active heap/purge_drain.c
  "hk_load_acquire(&heap->state" "hk_load_relaxed(&heap->state"
  "data race"
)
hk_add_model_mutant(span_put_to_rest_relaxed drain_of_what_was_active heap/span.c
  "hk_store_release(&state->active, NULL)" "hk_store_relaxed(&state->active, NULL)"
  "data race"
)
hk_add_model_mutant(drain_overlooks_what_comes drain_and_push_of_the_last heap/purge_drain.c
  "is_all ? rest.first : NULL" "rest.first"
  "what came meanwhile is looked at too"
)

# ---- Two threads at once.
hk_add_model_mutant(run_closed_in_two_steps run_free_and_free space/run.c
  "hk_compare_exchange_acquire(&head->state" "TWO_STEP_COMPARE_EXCHANGE(&head->state"
  "one of two frees is the first"
)
hk_add_model_mutant(large_freed_in_two_steps large_free_and_free space/large.c
  "hk_compare_exchange_acquire(&slab->state" "TWO_STEP_COMPARE_EXCHANGE(&slab->state"
  "one of two frees is the first"
)
hk_add_model_mutant(leaf_overwritten region_enter_and_enter space/region_map.c
  "hk_publish_once(&hk_region_map.distance[region]" "TWO_STEP_COMPARE_EXCHANGE(&hk_region_map.distance[region]"
  "both find the same leaf"
)

hk_add_model_mutant(recent_read_relaxed region_enter_and_enter space/region_map.c
  "hk_load_acquire(&recent[" "hk_load_relaxed(&recent["
  "who entered a region finds its leaf"
)
hk_add_model_mutant(recent_written_relaxed region_enter_and_enter space/region_map.c
  "hk_store_release(&recent[" "hk_store_relaxed(&recent["
  "who entered a region finds its leaf"
)

hk_add_model_mutant(moved_superslab_not_seen move_and_two_release space/superslab_index.c
  "HK_LIKELY(hk_superslab_index_shard(superslab) == shard)" "true"
  "data race"
)

# ---- Memory that is purged.
hk_add_model_mutant(purge_of_what_is_free purge_and_two_reuse space/purge.c
  "hk_os_purge_t purged = purge_rows(victim);"
  "unsigned at = hk_superslab_index_lock_of(victim->superslab);
  hk_superslab_index_put_back_locked(victim->superslab, victim->bits, false);
  hk_superslab_index_unlock(at);
  hk_os_purge_t purged = purge_rows(victim);
  at = hk_superslab_index_lock_of(victim->superslab);
  hk_superslab_index_withdraw_locked(victim->superslab, victim->bits);
  hk_superslab_index_unlock(at);"
  "data race"
)

# ---- Locks.
hk_add_model_mutant(lock_taken_relaxed lock_two_threads os/lock.c
  "hk_compare_exchange_acquire(word, &expected" "RELAXED_COMPARE_EXCHANGE(word, &expected"
  "data race"
)
hk_add_model_mutant(lock_taken_in_two_steps lock_two_threads os/lock.c
  "hk_compare_exchange_acquire(word, &expected" "TWO_STEP_COMPARE_EXCHANGE(word, &expected"
  "data race"
)
hk_add_model_mutant(lock_waited_for_relaxed lock_two_threads os/lock.c
  "hk_exchange_acquire(&line->word" "RELAXED_EXCHANGE(&line->word"
  "data race"
)
hk_add_model_mutant(lock_released_relaxed lock_two_threads os/lock.c
  "hk_exchange_release(&line->word" "RELAXED_EXCHANGE(&line->word"
  "data race"
)
hk_add_model_mutant(lock_wakes_nobody lock_two_threads os/lock.c
  "== word_contended)) hk_os_wake_one(" "== word_contended)) (void)("
  "deadlock"
)
hk_add_model_mutant(repair_published_relaxed lock_child_of_fork os/lock.c
  "hk_store_release(&page->epoch, epoch_ready);
  } else if"
  "hk_store_relaxed(&page->epoch, epoch_ready);
  } else if"
  "data race"
)
hk_add_model_mutant(repair_seen_relaxed lock_child_of_fork os/lock.c
  "uint32_t epoch = hk_load_acquire(&page->epoch)" "uint32_t epoch = hk_load_relaxed(&page->epoch)"
  "data race"
)

# ---- A heap whose thread sleeps.
hk_add_model_mutant(attachment_changed_relaxed end_and_take heap/attachment.c
  "hk_publish_once(&attachment->word, word, next)" "RELAXED_PUBLISH_ONCE(&attachment->word, word, next)"
  "data race"
)
hk_add_model_mutant(attachment_changed_in_two_steps sleep_and_two_take heap/attachment.c
  "hk_publish_once(&attachment->word, word, next)" "TWO_STEP_COMPARE_EXCHANGE(&attachment->word, word, next)"
  "a thread that has a heap finds it"
)
hk_add_model_mutant(attachment_word_repeats sleep_and_change_hands heap/attachment.c
  "(*word | HK_ATTACHMENT_STATE_MASK) + 1 + (uint32_t)state" "(uint32_t)state"
  "data race"
)
hk_add_model_mutant(attachment_taken_without_second_look sleep_and_take heap/attachment.c
  "bool slept = sleeps(&thread, is_busy);" "bool slept = true;"
  "data race"
)
hk_add_model_mutant(attachment_loose_is_emptied sleep_and_take_twice heap/attachment.c
  "before == hk_attachment_firm && !empty_variable" "!empty_variable"
  "a thread that has a heap finds it"
)
hk_add_model_mutant(attachment_word_older_than_variable end_and_loosen heap/attachment.c
  "(void)hk_load_acquire(variable);" ""
  "a thread that has ended has no heap"
)
hk_add_model_mutant(attachment_emptied_without_release end_and_loosen heap/attachment.c
  "hk_publish_once(hk_load_relaxed(&attachment->variable), &heap, empty)"
  "hk_compare_exchange_acquire(hk_load_relaxed(&attachment->variable), &heap, empty)"
  "a thread that has ended has no heap"
)
hk_add_model_mutant(attachment_end_without_wait end_and_take heap/attachment.c
  "hk_os_wait((const uint32_t *)&attachment->word, word); /* end_examination wakes it */" "return;"
  "data race"
)
hk_add_model_mutant(attachment_taken_up_as_firm take_up_and_end heap/attachment.c
  "is_examined ? hk_attachment_taken_up : hk_attachment_firm" "hk_attachment_firm"
  "data race"
)
hk_add_model_mutant(attachment_end_wakes_nobody end_and_take heap/attachment.c
  "hk_os_wake_one((const uint32_t *)&attachment->word);" ""
  "deadlock"
)

# ---- Guard slots.
hk_add_model_mutant(guard_made_twice guard_two_begin space/guard_slot.c
  "bool made = hk_guard_slot_has_pool() || make_pool(slots);" "bool made = make_pool(slots);"
  "data race"
)
hk_add_model_mutant(guard_pool_claimed_in_two_steps guard_two_begin space/guard_slot.c
  "hk_compare_exchange_acquire(&is_beginning, &expected" "TWO_STEP_COMPARE_EXCHANGE(&is_beginning, &expected"
  "data race"
)
hk_add_model_mutant(guard_pool_published_relaxed guard_two_begin space/guard_slot.c
  "hk_store_release(&hk_guard_slot_exists, true)" "hk_store_relaxed(&hk_guard_slot_exists, true)"
  "data race"
)
hk_add_model_mutant(guard_slot_taken_without_lock guard_two_take space/guard_slot.c
  "hk_lock_acquire(hk_lock_guard);
  hk_guard_record_t *slot = take_locked(kind);
  if (slot != NULL) *is_at_start = take_turn_locked(site);
  hk_lock_release(hk_lock_guard);"
  "hk_guard_record_t *slot = take_locked(kind);
  if (slot != NULL) *is_at_start = take_turn_locked(site);"
  "data race"
)
hk_add_model_mutant(guard_slot_free_before_it_is_closed guard_take_one_again space/guard_slot.c
  "bool is_closed = hk_os_purge_and_forbid((void *)view->pages, view->pages_bytes);
  hk_guard_record_write_freed(slot, deed);
  kind_t *kind = address - range < range_bytes ? &paged : &large;
  if (is_closed) {
    put_last(kind, slot);
    hk_guard_room_give();
  } else { /* the slot is given up: the address stays known as free, and its pages go */
    (void)hk_os_purge((void *)view->pages, view->pages_bytes);
  }"
  "kind_t *kind = address - range < range_bytes ? &paged : &large;
  put_last(kind, slot);
  (void)hk_os_purge_and_forbid((void *)view->pages, view->pages_bytes);
  hk_guard_record_write_freed(slot, deed);"
  "data race"
)
hk_add_model_mutant(guard_freed_in_two_steps guard_two_free space/guard_slot.c
  "hk_compare_exchange_acquire(&slot->state, &expected" "TWO_STEP_COMPARE_EXCHANGE(&slot->state, &expected"
  "one of two frees is the first"
)
hk_add_model_mutant(guard_copy_not_compared guard_look_while_used_again space/guard_record.c
  "bool is_whole = hk_load_relaxed(&record->sequence) == sequence;" "bool is_whole = true;"
  "a copy of a slot is of one life"
)
hk_add_model_mutant(guard_sequence_not_raised_before guard_look_while_used_again space/guard_record.c
  "static void begin_change(hk_guard_record_t *record) {
  hk_store_release(&record->sequence, hk_load_relaxed(&record->sequence) + 1);"
  "static void begin_change(hk_guard_record_t *record) {
  (void)record;"
  "a copy of a slot is of one life"
)
hk_add_model_mutant(guard_field_written_relaxed guard_look_while_used_again space/guard_record.c
  "hk_store_release(&record->alloc_thread, view->allocated.thread)"
  "hk_store_relaxed(&record->alloc_thread, view->allocated.thread)"
  "a copy of a slot is of one life"
)
hk_add_model_mutant(guard_field_read_relaxed guard_look_while_used_again space/guard_record.c
  "view->bytes = hk_load_acquire(&record->bytes)" "view->bytes = hk_load_relaxed(&record->bytes)"
  "a copy of a slot is of one life"
)
