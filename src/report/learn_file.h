/* report/learn_file.h - L9. The file that HAKMEM_LEARN_FILE names: what one run has learned about idle memory, for the next
 * one to begin with (policy/learn_record.h). */
#ifndef HK_REPORT_LEARN_FILE_H
#define HK_REPORT_LEARN_FILE_H

/* At the start. That there is no file yet is no error; a file that is of no use is said to be so, and not used. */
void hk_learn_file_load(void);

/* At the end, if something was learned since: by the process that has loaded it, not by its children. A failure is said,
 * and changes nothing else. */
void hk_learn_file_save(void);

#endif /* HK_REPORT_LEARN_FILE_H */
