"""`hakmem doctor`: what would keep the library from working well here."""
